"""Writes the kept state of MJoin anew."""

from tests.stream_joins.states import write

if __name__ == "__main__":
    write()
