"""A model file from elsewhere is tried in a child process first: what ends that one does not end this one.

A model's structure is checked before its library sees it; this is for what such a check does not foresee.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from placings.core import BadFile, MissingExtra, PlacingsError

MOST_SECONDS = 120
MEMORY = 8 << 30  # bytes of addresses that a child may use, beside what its file asks for
MEMORY_A_BYTE = 64  # of the file
REFUSED = 3  # exit code of a child that says why


def try_model(path: Path, ranker: str) -> None:
    """Load a model file and score a few rows with it in a child process; BadFile if that does not succeed.

    `ranker` names a class with `from_model`. The child has a limit of time and, where the system has such
    limits, of memory.
    """
    home = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    told = {**os.environ, "PYTHONPATH": home if not known else os.pathsep.join((home, known))}
    words = [sys.executable, "-P", "-m", "placings.rankers.child_loading", ranker, str(path.absolute())]
    try:
        ended = subprocess.run(
            words, env=told, stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BadFile(path, f"takes more than {MOST_SECONDS} seconds to load.") from None
    if ended.returncode == REFUSED:
        raise BadFile(path, " ".join(ended.stdout.decode(errors="replace").split()))
    if ended.returncode != 0:
        raise BadFile(
            path,
            f"ends the process that loads it ({_say_end(ended.returncode)}). It is damaged; save it again.",
        )


def _say_end(code: int) -> str:
    """How a child ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _limit_child(size: int) -> None:
    """No core file, and no more memory than a file of this size needs."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = MEMORY + MEMORY_A_BYTE * size
    _, highest = resource.getrlimit(resource.RLIMIT_AS)
    if highest == resource.RLIM_INFINITY or most < highest:
        resource.setrlimit(resource.RLIMIT_AS, (most, highest))


def main(ranker: str, path: str) -> int:
    """What the child does."""
    from placings.rankers.catalogue import find_class

    _limit_child(Path(path).stat().st_size)
    try:
        kind = find_class(ranker)
        loaded = kind.from_model(path)
        loaded._score(loaded._sample)
    except MissingExtra:
        return 0  # the parent lacks it too, and says so
    except PlacingsError as error:
        print(str(error).removeprefix(f"{path}: "))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
