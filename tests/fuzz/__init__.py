"""A fuzzer of everything that joins read: manifests, indexes, pages, pins, snapshots and exact states.

``python -m tests.fuzz --seconds 3600 --seed 1`` changes sound files and states at random, gives them right checksums,
and lets joins read them, in a process of its own. Findings are: the process ends, a case takes too long, an error that
is no `SemistreamError` in one line, and a result with bytes that are not in the files.
"""
