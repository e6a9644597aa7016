"""One small exception tree: a message says what is wrong, what was given and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from os import PathLike

OPEN, CLOSE, APART = "\x02", "\x03", "\x1f"  # around and inside an option that a message names


NEAR = 0.6  # of difflib's ratio: a letter or two, not another word


def option(*names: str, value: object = None) -> str:
    """An option in a message: `missing='NULL'` for a caller from Python, `--missing NULL` at the terminal.

    Of several names the terminal says those that the command has. Errors and warnings of placings show the
    keywords; the command line asks `say_flags` for the flags.
    """
    told = "" if value is None else f"{APART}{value!r}{APART}{value}"
    return f"{OPEN}{','.join(names)}{told}{CLOSE}"


def setting(name: str, value: object) -> str:
    """A ranker's setting in a message: `transform='cdf'`, or `--set transform=cdf` at the terminal."""
    return option(f"set:{name}", value=value)


def say_keywords(text: str) -> str:
    """A message with its options as a caller from Python writes them.

    >>> say_keywords(f"Pass {option('missing', value='NULL')}, or {option('qid', 'label')} with a column.")
    "Pass missing='NULL', or qid= or label= with a column."
    """
    return _say_options(text, {})


def say_flags(message: BaseException, flags: Mapping[str, str]) -> str:
    """An error or a warning with its options as a command's flags; `flags` maps keywords to them.

    An option that the command does not have is said to be one of Python.

    >>> say_flags(BadInput(f"Pass {option('missing', value='NULL')}."), {"missing": "--missing"})
    'Pass --missing NULL.'
    >>> say_flags(BadInput(f"Name {option('qid', 'item')}."), {"qid": "--qid"})
    'Name --qid.'
    >>> say_flags(BadInput(f"Pass {option('groups')} with sizes."), {"missing": "--missing"})
    'Pass groups= (from Python) with sizes.'
    """
    return _say_options(getattr(message, "marked", str(message)), flags, " (from Python)")


def _say_options(text: str, flags: Mapping[str, str], otherwise: str = "") -> str:
    def say(found: re.Match[str]) -> str:
        listed, *value = found[1].split(APART)
        if listed.startswith("set:"):
            name = listed.removeprefix("set:")
            return f"{flags['set']} {name}={value[1]}" if "set" in flags else f"{name}={value[0]}"
        names = listed.split(",")
        known = [flags[name] for name in names if name in flags]
        if known:
            return " ".join([_list_words(known), *value[1:]])
        return _list_words([f"{name}={''.join(value[:1])}" for name in names]) + otherwise

    return re.sub(f"{OPEN}([^{CLOSE}]*){CLOSE}", say, text)


def _list_words(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


class PlacingsError(Exception):
    """Everything placings raises on purpose; catch this one to catch them all.

    `marked` is the message with its options marked (see `option`), for who shows them otherwise.
    """

    def __init__(self, text: str = "") -> None:
        self.marked = text
        super().__init__(say_keywords(text))


class BadInput(PlacingsError, ValueError):
    """An argument or an array cannot be used as it is."""


class UnknownName(BadInput):
    """A name that is not in its registry; the message says which is meant, or is near, and lists what is.

    >>> print(UnknownName("metric", "ndgc", ["ndcg", "mrr"]))
    no metric 'ndgc'; did you mean 'ndcg'? Known: mrr, ndcg.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], *, meaning: str | None = None) -> None:
        names = sorted(known)
        folded = {each.lower(): each for each in reversed(names)}
        near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=NEAR)
        guess = f"did you mean {folded[near[0]]!r}? " if near else ""
        guess = guess if meaning is None else f"{meaning} "
        more = f" and {len(names) - 40} more" if len(names) > 40 else ""
        super().__init__(f"no {kind} {name!r}; {guess}Known: {', '.join(names[:40])}{more}.")


def check_name(kind: str, name: object, known: Iterable[str]) -> None:
    """Refuse a name that is not in its registry."""
    names = list(known)
    if name not in names:
        raise UnknownName(kind, str(name), names)


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

    def __init__(self, text: str = "") -> None:
        self.marked = text  # see PlacingsError
        super().__init__(say_keywords(text))


class Guess(PlacingsWarning):
    """A column or a layout was guessed; name it to silence this."""


class LeftOut(PlacingsWarning):
    """Columns whose names say that a ranker must not learn from them were not read as features."""


class OneQuery(PlacingsWarning):
    """Rows came without `qid`, so all of them count as one query; pass `qid` to silence this."""


class Joined(PlacingsWarning):
    """Rows of one query stood apart in a file and were put together, so rows are not in the file's order."""


class Mismatch(PlacingsWarning):
    """Data differ from what their publisher says of them."""


def find_warning(name: str) -> type[Warning]:
    """The warning of ours that has this name; the general one if none has."""
    known = {kind.__name__: kind for kind in (Guess, LeftOut, OneQuery, Joined, Mismatch)}
    return known.get(name, PlacingsWarning)
