"""Hours of stream in simulated time, with changes of the table: memory, open files and folders stay flat."""
