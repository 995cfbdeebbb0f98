"""Progress on stderr, so that stdout stays clean for results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

__all__ = ["counting", "stderr", "telling"]

stderr = Console(stderr=True)


@contextmanager
def counting(total: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """Show a bar; the function given is called with how many are done so far."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Show a line that says what is being done; the function given is called with it."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda message: progress.update(task, description=message)
