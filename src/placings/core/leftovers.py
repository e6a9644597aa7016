"""Files and folders under way: made beside their place, locked while their writer lives, swept when not.

A name ends in `.placings.part` while it is written, and in `.placings.old` while a folder is replaced where
the system cannot exchange two folders in one step. A killed writer leaves one behind; whoever next writes
into the same folder removes it. Nothing of another program has such a name.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from uuid import uuid4

PART, OLD = ".placings.part", ".placings.old"
FORMER = (".part", ".old")  # as version 0.1 named them
YOUNG = 60.0  # seconds in which a writer has surely locked what it made
ABANDONED = 86_400.0  # seconds after which what nobody can lock counts as left behind
LONGEST_NAME = 200  # bytes; a file system allows 255, and the endings need some

_swept: set[str] = set()


@contextmanager
def hold_part(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A new file or folder beside `path` for the time of a `with`; what is left of it then is removed.

    It has the permissions that the process gives to new files. Leftovers of dead writers go first.
    """
    sweep_leftovers(path)
    part = path.with_name(name_leftover(path, PART))
    if folder:
        part.mkdir()
        handle = os.open(part, os.O_RDONLY) if hasattr(os, "O_DIRECTORY") else None
    else:
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        if handle is not None:
            _lock(handle)
        yield part
    finally:
        if handle is not None:
            os.close(handle)
        _remove(part)


@contextmanager
def take_turns(folder: Path) -> Iterator[None]:
    """Let one process at a time write into a folder, for the time of a `with`, where there are locks."""
    handle = os.open(folder, os.O_RDONLY) if hasattr(os, "O_DIRECTORY") else None
    try:
        if handle is not None:
            _lock(handle, wait=True)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def name_leftover(path: Path, ending: str) -> str:
    """A name beside `path` that no other writer has."""
    name = path.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f".{name}.{uuid4().hex[:12]}{ending}"


def sweep_leftovers(path: Path, *, again: bool = False) -> None:
    """Remove what dead writers left in the folder of `path`; each folder is looked at once in a process.

    An `.old` folder stays while nothing stands in its place: it is the only copy. Of version 0.1's leftovers,
    those of `path` itself go once they are a day old.
    """
    folder = path.parent
    key = str(folder.absolute())
    if key in _swept and not again:
        return
    _swept.add(key)
    with suppress(OSError):
        for found in folder.glob(f".*{PART}"):
            if _is_left(found):
                _remove(found)
        for found in folder.glob(f".*{OLD}"):
            place = folder / found.name[1:].removesuffix(OLD).rpartition(".")[0]
            if place.exists() and _is_left(found):
                _remove(found)
        for ending in FORMER:
            for found in folder.glob(f".{escape(path.name)}.*{ending}"):
                if time.time() - found.stat().st_mtime > ABANDONED and path.exists():
                    _remove(found)


def find_old(path: Path) -> Path | None:
    """The folder that stood at `path` before a writer was killed between its two steps; the newest one."""
    found = sorted(path.parent.glob(f".{escape(path.name)}.*{OLD}"), key=lambda each: each.stat().st_mtime)
    return found[-1] if found else None


def swap_folder(part: Path, path: Path) -> None:
    """Put a finished folder where another may stand: whoever looks finds the one or the other.

    Both are exchanged in one step where the system can. Elsewhere there is a moment between two steps; a
    writer killed in it leaves the old folder where `find_old` finds it.
    """
    sync_folder(part)
    if not os.path.lexists(path):
        part.rename(path)
    elif not _exchange(part, path):
        old = path.with_name(name_leftover(path, OLD))
        path.rename(old)
        try:
            part.rename(path)
        except OSError:
            old.rename(path)
            raise
        _remove(old)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring a folder's names to the disk, where the system can: a file is safe only with its name."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_file(path: Path) -> None:
    """Bring a file's bytes to the disk; a full one is told now, not later."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        call: Callable[..., int]
        if sys.platform == "darwin":
            call, arguments = library.renamex_np, (os.fsencode(one), os.fsencode(other), 2)
        else:
            at = -100  # the working folder
            call, arguments = library.renameat2, (at, os.fsencode(one), at, os.fsencode(other), 2)
        return bool(call(*arguments) == 0)
    except (AttributeError, OSError, TypeError):
        return False


def _is_left(found: Path) -> bool:
    """Whether the writer of a leftover is dead: nobody holds its lock."""
    age = time.time() - found.stat().st_mtime
    if age < YOUNG:
        return False
    try:
        handle = os.open(found, os.O_RDONLY)
    except OSError:
        return False
    try:
        known = _lock(handle)
        return age > ABANDONED if known is None else known
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool = False) -> bool | None:
    """Take the lock on an open file or folder: True, False if another has it, None if there are no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
