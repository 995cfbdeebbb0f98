"""Progress on stderr, so that stdout stays clean for results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from semistream.bench.framework.runner import Progress as RunProgress

__all__ = ["counting", "estimating", "stderr", "telling"]

stderr = Console(stderr=True)


@contextmanager
def counting(total: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """Show a bar, and yield a function that sets how many are done."""
    with _progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Show a line, and yield a function that sets its text."""
    with _progress(SpinnerColumn(), TextColumn("{task.description}")) as progress:
        task = progress.add_task("", total=None)
        yield lambda message: progress.update(task, description=message)


@contextmanager
def estimating() -> Iterator[Callable[[RunProgress], None]]:
    """Show a bar with the current measurement and the time left, and yield a function that sets both."""
    with _progress(SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}")) as progress:
        task = progress.add_task("", total=1.0)

        def tell(run: RunProgress) -> None:
            left = "" if run.left_s is None else f" ({_time_left(run.left_s)})"
            progress.update(task, completed=run.share_done, description=run.message + left)

        yield tell


def _progress(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, TimeElapsedColumn(), console=stderr, transient=True, disable=not stderr.is_terminal)


def _time_left(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 60 else "less than a minute left"
