"""One small exception tree: a message says what is wrong, what was given and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from os import PathLike


class PlacingsError(Exception):
    """Everything placings raises on purpose; catch this one to catch them all."""


class BadInput(PlacingsError, ValueError):
    """An argument or an array cannot be used as it is."""


class UnknownName(BadInput):
    """A name that is not in its registry; the message lists what is, nearest first.

    >>> print(UnknownName("metric", "ndgc", ["ndcg", "mrr"]))
    no metric 'ndgc'; did you mean 'ndcg'? Known: mrr, ndcg.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        guess = f"did you mean {near[0]!r}? " if near else ""
        more = f" and {len(names) - 40} more" if len(names) > 40 else ""
        super().__init__(f"no {kind} {name!r}; {guess}Known: {', '.join(names[:40])}{more}.")


class BadFile(PlacingsError, ValueError):
    """A file holds something that cannot be read; `path` and `line` say where."""

    def __init__(self, path: str | PathLike[str], problem: str, *, line: int | None = None) -> None:
        self.path = str(path)
        self.line = line
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {problem}")


class EmptyFile(BadFile):
    """A file without a single row."""


class TruncatedFile(BadFile):
    """A compressed file that ends before its data does."""


class BadBundle(BadFile):
    """A saved ranker that is damaged, tampered with, from the future, or no bundle at all."""


class MissingExtra(PlacingsError, ImportError):
    """A library that an optional part needs is not installed; the message names the command."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(f"{what} needs {library}. Install it with: pip install 'placings[{extra}]'")


class PlacingsWarning(UserWarning):
    """Something was decided on the user's behalf, or looks wrong but can be worked with."""


class Guess(PlacingsWarning):
    """A column or a layout was guessed; name it to silence this."""


class OneQuery(PlacingsWarning):
    """Rows came without `qid`, so all of them count as one query; pass `qid` to silence this."""


class Mismatch(PlacingsWarning):
    """Data differ from what their publisher says of them."""
