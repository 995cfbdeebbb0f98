"""Entry point of the ``semistream`` command."""

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's background job is not
    if is_interruptible:
        # The imports take a second. Nothing has begun that would have to be undone, and they may lose an exception.
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    try:
        from semistream.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"semistream: the command line needs {error.name!r}: pip install 'semistream[cli]'")
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Like an interrupt from the keyboard, so that unfinished files are removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    app()


if __name__ == "__main__":
    main()
