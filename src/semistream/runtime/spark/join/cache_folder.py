"""Where the workers of an executor share the caches of joins: in memory, or else on the executor's disk.

::

    /dev/shm/semistream-<user>/<executor>/users            locked by the workers of the executor and by its keeper
                                         /keeper           locked by the keeper
                                         /joins/<join>/    the join's cache

What lies below ``/dev/shm`` is memory that processes share, and that the system never throws out to read it again page
by page. But it outlives them. So a process of its own removes an executor's folder when Spark's daemon ends
(`semistream.runtime.spark.join.cache_keeper`). If that was killed too, the folder goes when a worker of the same user
opens another cache: a lock goes with its process, however that ends, so nobody uses a folder whose lock is free.
Numbers of processes would not tell: containers may share this memory, and not each other's processes.

Where that memory is missing, no tmpfs, or too small, as often in containers, caches lie on the executor's own disk, in
a folder that Spark removes with the executor.
"""

import fcntl
import os
import shutil
import stat
import time
from contextlib import suppress
from functools import cache

import xxhash

from semistream.runtime.spark.join.cache_keeper import USERS, remove, start_keeper
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.on_executor import executor_disk, executor_folder
from semistream.state.private_files import make_private, open_private

__all__ = ["cache_folder", "executor_memory", "remove_abandoned"]

_MEMORY = "/dev/shm"
_MOUNTS = "/proc/self/mounts"
_LEFT_SHARE = 1 / 8  # of that memory, which others need
_NEW_S = 60.0  # within which a folder may still be without its lock
_ATTEMPTS = 10

_HELD: dict[str, int] = {}  # the folder of the executor, and the file that this process has locked there


def cache_folder(plan: JoinPlan) -> str | None:
    """Return the folder for a join's cache, which may be missing; None where the workers have none to share."""
    disk = executor_disk()
    if disk is None:
        return None
    with suppress(OSError):
        folder = _memory_folder(plan, disk)
        if folder is not None:
            return folder
    return executor_folder(plan)


def _memory_folder(plan: JoinPlan, disk: str) -> str | None:
    executor = executor_memory(disk)
    if executor is None:
        return None
    folder = os.path.join(executor, "joins", plan.join_id)
    if not os.path.isdir(folder) and not _has_room(plan.task_bytes * plan.slots):
        return None
    _hold(executor)
    make_private(folder)
    return folder


def executor_memory(disk: str) -> str | None:
    """Return the folder in memory for the executor to which Spark gave ``disk``; None where there can be none."""
    root = _private_root()
    return None if root is None else os.path.join(root, xxhash.xxh3_64_hexdigest(os.path.abspath(disk).encode()))


def _private_root() -> str | None:
    """Return this user's folder in memory; None without such memory, or if somebody else may put files there."""
    if not _is_memory(_MEMORY):
        return None
    root = os.path.join(_MEMORY, f"semistream-{os.geteuid()}")
    make_private(root)
    status = os.lstat(root)
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return root if is_private else None


@cache
def _is_memory(folder: str) -> bool:
    with suppress(OSError), open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
        return any(mount.split()[1:3] == [folder, "tmpfs"] for mount in mounts)
    return False


def _has_room(num_bytes: int) -> bool:
    found = os.statvfs(_MEMORY)
    return found.f_bavail * found.f_frsize >= num_bytes + found.f_blocks * found.f_frsize * _LEFT_SHARE


# --- who uses a folder ------------------------------------------------------------------------------------------------


def _hold(executor: str) -> None:
    """Make an executor's folder, and keep it while this process lives."""
    users = os.path.join(executor, USERS)
    if executor in _HELD:
        if _is_at(_HELD[executor], users):
            return
        os.close(_HELD.pop(executor))
    for _ in range(_ATTEMPTS):
        make_private(executor)
        with suppress(FileNotFoundError):  # it has just been removed
            file = open_private(users, os.O_RDWR | os.O_CREAT)
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if _is_at(file, users):
                    _HELD[executor] = file
                    start_keeper(executor)
                    return
            os.close(file)
        time.sleep(0.01)
    raise BlockingIOError(f"{users} stays locked")


def _is_at(file: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def remove_abandoned() -> None:
    """Remove the folders in memory of executors that are gone."""
    with suppress(OSError):
        root = _private_root()
        for name in os.listdir(root) if root is not None else ():
            executor = os.path.join(str(root), name)
            if executor not in _HELD:
                with suppress(OSError):
                    _remove_if_abandoned(executor)


def _remove_if_abandoned(executor: str) -> None:
    try:
        file = os.open(os.path.join(executor, USERS), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - os.stat(executor).st_mtime > _NEW_S:
            shutil.rmtree(executor, ignore_errors=True)
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(executor)
    finally:
        os.close(file)
