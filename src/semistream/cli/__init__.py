"""The command line: parses, delegates, prints."""
