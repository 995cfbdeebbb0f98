"""Tables and streams from files: real data sets, and TPC-H."""
