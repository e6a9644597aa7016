"""Columns under other names: `ours=theirs`, for a log that calls its columns something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placings.core import BadInput, UnknownName

Columns = Mapping[str, str]  # our name to theirs


def check_columns(columns: Columns | None, known: Iterable[str], parts: Iterable[str] = ()) -> dict[str, str]:
    """The map, refused where it names a column that we have not, or gives two of ours the same of theirs.

    A name of ours may begin with a part of the log, as "actions.time" does, and is then of that part alone.

    >>> check_columns({"search_idd": "sid"}, ["search_id", "time"])
    Traceback (most recent call last):
    placings.core.errors.UnknownName: no column of a log 'search_idd'; did you mean 'search_id'? Known: \
search_id, time.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise BadInput(f"columns must map our names to theirs, {{'search_id': 'sid'}}. Got {columns!r}.")
    names = list(known)
    for ours, theirs in columns.items():
        _, plain = split_part(str(ours), parts)
        if plain not in names:
            raise UnknownName("column of a log", str(ours), names)
        if not isinstance(theirs, str) or not theirs:
            raise BadInput(f"columns must give {ours!r} a name. Got {theirs!r}.")
    return {str(ours): theirs for ours, theirs in columns.items()}


def split_part(ours: str, parts: Iterable[str]) -> tuple[str | None, str]:
    """The part of the log that a name is of, or None for all of them, and the name without it.

    >>> split_part("actions.time", ["searches", "actions"]), split_part("time", ["searches", "actions"])
    (('actions', 'time'), (None, 'time'))
    """
    head, dot, rest = ours.partition(".")
    return (head, rest) if dot and head in tuple(parts) else (None, ours)


def take_part(columns: Columns, part: str, parts: Iterable[str]) -> dict[str, str]:
    """What of a map is about one part of the log; names of that part alone win over those of all.

    >>> take_part({"time": "ts", "actions.time": "at"}, "actions", ["searches", "actions"])
    {'time': 'at'}
    """
    split = [(*split_part(ours, parts), theirs) for ours, theirs in columns.items()]
    common = {name: theirs for of, name, theirs in split if of is None}
    return common | {name: theirs for of, name, theirs in split if of == part}


def refuse_unused(columns: Columns, used: Iterable[str], where: str, there: Iterable[str]) -> None:
    """Refuse a name of theirs that no file has; `used` are the names of theirs that were found."""
    found = set(used)
    for theirs in columns.values():
        if theirs not in found:
            raise UnknownName(f"column of {where}", theirs, list(dict.fromkeys(there)))
