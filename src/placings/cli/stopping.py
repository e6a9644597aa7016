"""What a command says when it is stopped by Ctrl-C or SIGTERM: what is kept, and how to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

STOPPED = 130  # exit code, as the shell has it for Ctrl-C


@contextmanager
def say_when_stopped(kept: str) -> Iterator[None]:
    """Name what is kept in the line that a stopped command ends with."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(kept) from stop
