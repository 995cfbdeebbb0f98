"""Keeps a folder of shared memory as long as Spark's Python daemon lives, then removes it: a small process of its own.

Spark stops idle workers after a minute, and ends all of them without a word, so that none of them can do this.

It runs as a program, with the folder and the number of the daemon's process, and imports the standard library alone.
"""

import fcntl
import os
import select
import shutil
import subprocess
import sys
import uuid
from contextlib import suppress

__all__ = ["KEEPER", "USERS", "remove", "start_keeper"]

USERS = "users"  # locked by whoever uses the folder
KEEPER = "keeper"  # locked by the one process that keeps it


def start_keeper(folder: str) -> None:
    """Let a process keep the folder while the parent of this one lives, unless there is one."""
    parent = os.getppid()
    if parent <= 1 or not hasattr(os, "pidfd_open") or not os.path.isfile(__file__):  # 1: the parent has just ended
        return
    file = _open(os.path.join(folder, KEEPER))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    finally:
        os.close(file)
    # In a session of its own, or Spark would end it together with the workers.
    subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, folder, str(parent)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    ).returncode = 0  # nobody waits for it


def remove(folder: str) -> None:
    gone = f"{folder}.{uuid.uuid4().hex}"  # from now on nobody finds it by its name
    os.rename(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _keep(folder: str, process: int) -> None:
    users, keeper = _open(os.path.join(folder, USERS)), _open(os.path.join(folder, KEEPER))
    try:
        fcntl.flock(keeper, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # there is a keeper, or the folder is being removed
        return
    with suppress(ProcessLookupError):  # it is gone
        waiting = select.poll()
        waiting.register(os.pidfd_open(process), select.POLLIN)
        waiting.poll()
    fcntl.flock(users, fcntl.LOCK_EX)  # workers of another daemon may go on
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(users), os.stat(os.path.join(folder, USERS))):
            remove(folder)


if __name__ == "__main__":
    with suppress(OSError):
        _keep(sys.argv[1], int(sys.argv[2]))
