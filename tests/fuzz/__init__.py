"""A fuzzer of all that is read: tables, pins, snapshots, exact states, checkpoints, calibrations and result files.

``python -m tests.fuzz --seconds 3600 --seed 1`` changes sound files and states at random, gives them right checksums,
and lets joins read them, in a process of its own. Findings are: the process ends, a case takes too long, an error that
is no `SemistreamError` in one line, a result with bytes that are not in the files, a join beyond its budget, damaged
copies of chunks that change rows, and a file that is written elsewhere.
"""
