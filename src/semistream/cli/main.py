"""Entry point of the ``semistream`` command."""

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from semistream.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"semistream: the command line needs {error.name!r}: pip install 'semistream[cli]'")
    # Like an interrupt from the keyboard, so that unfinished files are removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    app()


if __name__ == "__main__":
    main()
