"""Examples at the end of help pages."""

__all__ = ["example"]


def example(*commands: str) -> str:
    """Return an epilog that shows ``commands``, each on a line of its own."""
    # The control character keeps the help formatter from joining the lines.
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)
