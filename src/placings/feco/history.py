"""A coverage store kept up to date from a log, day by day: safe to repeat, to stop, and to run late.

coverage/
  coverage.sqlite   coverage by window, feature, segment and rule (see `CoverageStore`)
  history.json      how it is counted, and which days were computed at which watermark
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.data.engines import Engine, Table, opened
from placings.errors import BadFile, BadInput
from placings.evaluation.rendering import write_json
from placings.feco.choices import check_column
from placings.feco.rules import LEARNED, find_rules
from placings.feco.score import coverage
from placings.feco.store import CoverageStore
from placings.feco.windows import DAY, Cut, as_second, make_cut, parse_window, read_seconds

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.sampling import Plan

STORE, FILE = "coverage.sqlite", "history.json"
VERSION = 1
LATE = "7d"


@dataclass(frozen=True)
class History:
    """A store's folder as it was read: how coverage is counted in it, and when each day was computed."""

    path: Path
    counting: Mapping[str, Any]
    done: Mapping[str, float]  # start of a day (or longer window) → the watermark it was computed at, seconds

    @property
    def store(self) -> CoverageStore:
        return CoverageStore(self.path / STORE)

    def read(self, **chosen: Any) -> pd.DataFrame:
        """The coverage frame; `chosen` goes to `CoverageStore.read` (since=, until=, unfinished=)."""
        return self.store.read(by=self.counting["by"] or None, step=self.counting["window"], **chosen)


@dataclass(frozen=True)
class Update:
    """What `update_history` did: days computed now, days left as they were, and rows of the store."""

    computed: tuple[datetime, ...]
    skipped: int
    written: int
    replaced: int
    removed: int
    kept: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "computed": [day.isoformat() for day in self.computed]}


def open_history(path: str | PathLike[str]) -> History:
    """The history in a folder, or an error that says how to make one."""
    path = Path(path)
    if not (path / FILE).is_file():
        raise BadFile(path, "is no coverage store. Make one with `placings coverage trend EVENTS --store …`.")
    try:
        read = json.loads((path / FILE).read_text(encoding="utf-8"))
        if read["version"] != VERSION:
            raise BadFile(path / FILE, f"has version {read['version']}; this placings knows {VERSION}.")
        done = {str(day): float(mark) for day, mark in read["done"].items()}
        return History(path, dict(read["counting"]), done)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFile(path / FILE, f"cannot be read: {error!r}. Compute the store anew.") from error


def update_history(
    path: str | PathLike[str],
    table: Table,
    features: str | Sequence[str] | None = None,
    *,
    time: str,
    watermark: Any = None,
    since: Any = None,
    until: Any = None,
    late: str = LATE,
    rule: Any = "non_zero",
    event: str | None = None,
    within: str | int = "any",
    by: str | Sequence[str] | None = None,
    window: str = "1d",
    zone: str | None = None,
    position: str | None = None,
    sample: Plan | None = None,
    engine: Engine = None,
    on_day: Callable[[datetime, int], object] | None = None,
    **others: Any,
) -> Update:
    """Bring the store in a folder up to date with a log; each day is computed and kept by itself.

    Computed are the days that the store lacks and those that may still have changed: a day is final once it
    was computed at a `watermark` (up to when the log is complete; None is now) at least `late` after its
    end. `since` and `until` (not included) have every day between them computed again, final or not: for
    backfills. What is computed again replaces what was there, so running twice changes nothing, a run that
    was stopped goes on, and late events are counted once they have arrived.

    The other arguments are those of `coverage`. The first run fixes them for the folder; a later one that
    differs is an error. Rules "mean" and "median" would differ from day to day and are refused. With windows
    longer than a day, read "window" for day. Rows of one event on two sides of midnight count on both days.
    `on_day` hears each day and its rows.
    """
    home = Path(path)
    length = parse_window(window)
    margin = parse_window(late, "late")
    mark = as_second(datetime.now(UTC) if watermark is None else watermark, "watermark")
    names = [by] if isinstance(by, str) else list(by or ())
    with opened(table, engine) as source:
        check_column(source, time, "time")
        seconds = read_seconds(source.table[time])
        ends = source.ask(source.table.aggregate(first=seconds.min(), last=seconds.max())).iloc[0]
        rules = find_rules(rule, source.table.columns)
    if any(one in LEARNED for one in rules.values()):
        raise BadInput(
            "a trend needs rules that mean the same every day. Got 'mean' or 'median': name numbers."
        )
    if ends.isna().any() and (since is None or until is None):
        raise BadInput("the log has no row with a time, so there is no day to compute.")
    first = int(ends["first"] if since is None else as_second(since, "since", zone))
    last = int(ends["last"] if until is None else as_second(until, "until", zone) - 1)
    if last < first:
        return Update((), 0, 0, 0, 0, 0, ("no day of the log lies in the time asked for",))
    counting = {
        "features": features if isinstance(features, str) or features is None else list(features),
        "time": time, "rule": str(rule) if isinstance(rule, PathLike) else rule, "event": event,
        "within": within, "by": names, "window": window, "zone": zone, "position": position,
        "sample": None if sample is None else repr(sample),
    }  # fmt: skip
    history = _start_history(home, counting)
    chosen = history.counting["named"] or features
    cut = make_cut(window if length >= DAY else "1d", zone, (first, last))
    done = dict(history.done)
    totals = {"written": 0, "replaced": 0, "removed": 0, "kept": 0}
    computed, notes, skipped = [], [], 0
    forced = since is not None or until is not None
    for begin, end in _list_days(cut, first, last):
        if not forced and done.get(_name(begin), -np.inf) >= end.timestamp() + margin:
            skipped += 1
            continue
        found = coverage(
            table, chosen, rule=rule, event=event, within=within, by=names or None, time=time, window=window,
            zone=zone, since=begin, until=end, position=position, sample=sample, engine=engine,
            absent="dark" if done else "error", **others,
        )  # fmt: skip
        kept = history.store.put(
            found, watermark=datetime.fromtimestamp(mark, UTC), since=begin, until=end, step=window
        )
        for name in totals:
            totals[name] += getattr(kept, name)
        done[_name(begin)] = max(mark, done.get(_name(begin), -np.inf))
        if not chosen:
            chosen = list(found.features)
            counting = {**history.counting, "named": chosen}
            history = History(home, counting, done)
        _write(home, history.counting, done)
        computed.append(begin.replace(tzinfo=None))
        notes += [note for note in found.notes if note not in notes and "Windows without" not in note]
        if on_day is not None:
            on_day(computed[-1], kept.written)
    return Update(tuple(computed), skipped, **totals, notes=tuple(notes))


# -- inside -------------------------------------------------------------------------------------------------


def _start_history(home: Path, counting: dict[str, Any]) -> History:
    """The folder's history, begun if there is none; counting in another way than before is refused."""
    if not (home / FILE).is_file():
        if home.is_file() or (home.is_dir() and any(home.iterdir()) and not (home / STORE).is_file()):
            raise BadFile(home, "is there already and is no coverage store. Name a new folder.")
        home.mkdir(parents=True, exist_ok=True)
        fresh = {**counting, "named": None}
        _write(home, fresh, {})
        return History(home, fresh, {})
    history = open_history(home)
    for name, value in counting.items():
        before = history.counting.get(name)
        if before != json.loads(json.dumps(value, default=str)):
            raise BadInput(
                f"the store {home} was made with {name}={before!r}. Got {value!r}. "
                "Count as before, or name another folder."
            )
    return history


def _write(home: Path, counting: Mapping[str, Any], done: Mapping[str, float]) -> None:
    from placings.evaluation.runs import write_text

    text = write_json({"version": VERSION, "counting": dict(counting), "done": dict(done)})
    write_text(home / FILE, text + "\n")


def _list_days(cut: Cut, first: int, last: int) -> list[tuple[datetime, datetime]]:
    """Begin and end of each day (or longer window) from one second to another, in UTC."""
    many = max(cut.seconds // DAY, 1)
    keys = cut.keys_between(cut.key_of(first), cut.key_of(last))
    starts = cut.starts(np.array([*keys, keys[-1] + many], dtype=np.int64)).astype("datetime64[s]")
    moments = [datetime.fromtimestamp(int(start), UTC) for start in starts.astype(np.int64)]
    return list(pairwise(moments))


def _name(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%MZ")
