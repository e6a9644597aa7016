"""A coverage store kept up to date from a log, day by day: safe to repeat, to stop, and to run late.

coverage/
  coverage.sqlite   coverage by window, feature, segment and rule (see `CoverageStore`)
  history.json      how it is counted, and which days were computed at which watermark
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    BadFile,
    BadInput,
    need_library,
    option,
    parse_json,
    read_config_text,
    take_renamed,
    write_json,
)
from placings.data import Backend, Table, opened
from placings.feco.baselines import as_frame, as_stamps, find_segment_columns, find_step, parse_time
from placings.feco.choices import check_column
from placings.feco.rules import LEARNED, find_rules
from placings.feco.score import Coverage, coverage
from placings.feco.windows import DAY, Windowing, as_second, make_cut, parse_window, read_seconds

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.sampling import SamplingPlan

LAYOUT = 2  # 1 had no checksums; they are added when it is first opened
NUMBERS = ("coverage", "low", "high", "events", "covered")
CREATE = """
CREATE TABLE IF NOT EXISTS coverage (
    rule TEXT NOT NULL, unit TEXT NOT NULL, step INTEGER NOT NULL, segments TEXT NOT NULL,
    feature TEXT NOT NULL, start INTEGER NOT NULL, segment TEXT NOT NULL,
    coverage REAL, low REAL, high REAL, events INTEGER NOT NULL, covered REAL,
    watermark INTEGER, place INTEGER NOT NULL, checksum INTEGER,
    PRIMARY KEY (rule, unit, step, segments, feature, start, segment)
) WITHOUT ROWID
"""
INSERT = f"INSERT INTO coverage VALUES ({', '.join('?' * 15)})"
KEY = "rule = ? AND unit = ? AND step = ? AND segments = ? AND feature = ?"


@dataclass(frozen=True)
class Stored:
    """What `put` did, in rows: `written`, of which `replaced` stood there before; `removed` without a
    successor; `kept` because they were computed at a later watermark."""

    written: int
    replaced: int
    removed: int
    kept: int


class CoverageStore:
    """Coverage keyed by window, feature, segment, rule and unit, in one SQLite file.

    A `put` is one transaction: it is there as a whole or not at all, and readers never see half of it.

    >>> import pandas as pd, tempfile
    >>> day = pd.DataFrame({"feature": ["rating"], "window": pd.to_datetime(["2024-01-01"]),
    ...                     "coverage": [0.5], "events": [80]})
    >>> store = CoverageStore(tempfile.mkdtemp() + "/coverage.sqlite")
    >>> store.put(day, rule="non_zero")
    Stored(written=1, replaced=0, removed=0, kept=0)
    >>> store.put(day.assign(coverage=0.6, events=100), rule="non_zero")  # late events came in
    Stored(written=1, replaced=1, removed=0, kept=0)
    >>> store.read()[["feature", "coverage", "events"]].values.tolist()
    [['rating', 0.6, 100]]
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._verified: tuple[int, ...] = ()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connect() as base:
            (layout,) = base.execute("PRAGMA user_version").fetchone()
            if layout not in range(LAYOUT + 1):
                raise BadFile(self.path, f"has layout {layout}; this placings knows {LAYOUT}. Update it.")
            base.execute(CREATE)
            if layout == 1:
                old = base.execute("SELECT * FROM coverage").fetchall()
                base.execute("DROP TABLE coverage")
                base.execute(CREATE)
                base.executemany(INSERT, [(*entry, _sum_row(entry)) for entry in old])
            base.execute("CREATE TABLE IF NOT EXISTS sums (counted INTEGER NOT NULL)")
            base.execute(f"PRAGMA user_version = {LAYOUT}")

    def put(
        self,
        frame: pd.DataFrame | Coverage,
        *,
        rule: str | float | Mapping[str, Any] | None = None,
        unit: str | None = None,
        watermark: Any = None,
        since: Any = None,
        until: Any = None,
        step: Any = None,
    ) -> Stored:
        """Keep coverage; what was there for the same windows, features, rules and unit is replaced.

        All segments of a feature's window are replaced together, so that one that no longer occurs goes.
        `since` and `until` (not included) say which windows were computed again: those without a row now are
        removed. `watermark` is the time up to which the log was complete. Rows that were computed at a
        later watermark are kept: a slow backfill never undoes a newer run. Rule and unit come from a
        Coverage; with a frame, `rule` is needed, one for all or by feature.
        """
        given, _ = as_frame(frame)
        by = find_segment_columns(given)
        if "window" not in given.columns:
            raise BadInput(f"the coverage frame has no windows. Name the time with {option('time')}.")
        told = frame if isinstance(frame, Coverage) else None
        names = list(told.features) if told is not None else [str(n) for n in dict.fromkeys(given["feature"])]
        rules = _name_rules(names, rule if rule is not None or told is None else told.rules)
        counted = unit or (told.unit if told is not None else "row")
        length = step if step is not None or told is None else told.window
        stamps = as_stamps(given["window"])
        seconds = int(find_step(stamps, length).total_seconds())
        starts = stamps.to_numpy().astype("datetime64[s]").astype(np.int64)
        mark = None if watermark is None else int(parse_time(watermark, "watermark").timestamp())
        rows = _list_rows(given, by, starts)
        for feature in told.features if told is not None else ():
            rows.setdefault(feature, {})  # counted, and there was nothing: what was kept of it goes
        written = replaced = removed = kept = 0
        with self._connect() as base:
            for place, (feature, windows) in enumerate(rows.items()):
                key = (rules[feature], counted, seconds, json.dumps(by), feature)
                for start, segments in windows.items():
                    old = base.execute(
                        f"SELECT segment, watermark FROM coverage WHERE {KEY} AND start = ?", (*key, start)
                    ).fetchall()
                    if mark is not None and any(seen is not None and seen > mark for _, seen in old):
                        kept += len(old)
                        continue
                    base.execute(f"DELETE FROM coverage WHERE {KEY} AND start = ?", (*key, start))
                    entries = [(*key, start, name, *values, mark, place) for name, values in segments.items()]
                    base.executemany(INSERT, [(*entry, _sum_row(entry)) for entry in entries])
                    same = sum(name in segments for name, _ in old)
                    written, replaced = written + len(segments), replaced + same
                    removed += len(old) - same
                if since is not None or until is not None:
                    first, last = _read_ends(since, until)
                    gone = [
                        start
                        for (start,) in base.execute(
                            f"SELECT DISTINCT start FROM coverage WHERE {KEY} AND start >= ? AND start < ? "
                            "AND (? IS NULL OR watermark IS NULL OR watermark <= ?)",
                            (*key, first, last, mark, mark),
                        )
                        if start not in windows
                    ]
                    for start in gone:
                        query = f"DELETE FROM coverage WHERE {KEY} AND start = ?"
                        removed += base.execute(query, (*key, start)).rowcount
            base.execute("DELETE FROM sums")
            base.execute("INSERT INTO sums SELECT COUNT(*) FROM coverage")
        return Stored(written, replaced, removed, kept)

    def read(
        self,
        *,
        features: Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        rule: str | float | None = None,
        unit: str | None = None,
        step: Any = None,
        since: Any = None,
        until: Any = None,
        unfinished: bool = False,
    ) -> pd.DataFrame:
        """The coverage frame of the windows from `since` to `until` (not included), for `by`'s segments.

        A window that had not ended at the watermark it was computed at is left out unless `unfinished`.
        Where a feature is kept under several rules, units or window lengths, say which.
        """
        pandas = need_library("pandas", "a coverage frame")
        names = [] if by is None else [by] if isinstance(by, str) else list(by)
        first, last = _read_ends(since, until)
        wanted: dict[str, Any] = {"segments": json.dumps(names)}
        wanted |= {} if rule is None else {"rule": _name_rule(rule)}
        wanted |= {} if unit is None else {"unit": unit}
        wanted |= {} if step is None else {"step": int(find_step([], step).total_seconds())}
        where = " AND ".join(f"{name} = ?" for name in wanted)
        if features is not None:
            where += f" AND feature IN ({', '.join('?' * len(features))})"
        columns = ("feature", "segment", "start", *NUMBERS, "watermark", "place", "rule", "unit", "step")
        with self._connect() as base:
            self._verify(base)
            found = base.execute(
                f"SELECT {', '.join(columns)} FROM coverage WHERE {where} AND start >= ? AND start < ?",
                (*wanted.values(), *(features or ()), first, last),
            ).fetchall()
        rows = pandas.DataFrame(found, columns=list(columns))
        _refuse_mixtures(rows)
        if not unfinished:
            ends = rows["start"] + rows["step"]
            rows = rows[rows["watermark"].isna() | (ends <= rows["watermark"].astype("float64"))]
        segments = [json.loads(text) for text in rows["segment"]]
        frame = pandas.DataFrame({"feature": rows["feature"].astype(object).to_numpy()})
        for place, name in enumerate(names):
            frame[name] = pandas.Series([values[place] for values in segments], dtype=object)
        frame["window"] = rows["start"].to_numpy(np.int64).astype("datetime64[s]").astype("datetime64[ns]")
        for name in NUMBERS:
            frame[name] = rows[name].astype("int64" if name == "events" else "float64").to_numpy()
        sorted_rows = frame.assign(
            _place=rows["place"].to_numpy(), **{f"_{n}": frame[n].astype(str) for n in names}
        ).sort_values(["_place", "feature", *[f"_{n}" for n in names], "window"], kind="stable")
        answer: pd.DataFrame = sorted_rows[frame.columns.tolist()].reset_index(drop=True)
        return answer

    def list_kept(self) -> pd.DataFrame:
        """What the store holds: rule, unit, step, segments, features, first and last window, rows."""
        pandas = need_library("pandas", "a coverage frame")
        with self._connect() as base:
            self._verify(base)
            found = base.execute(
                "SELECT rule, unit, step, segments, COUNT(DISTINCT feature), MIN(start), MAX(start), "
                "COUNT(*) FROM coverage GROUP BY rule, unit, step, segments"
            ).fetchall()
        names = ["rule", "unit", "step", "segments", "features", "first", "last", "rows"]
        frame: pd.DataFrame = pandas.DataFrame(found, columns=names)
        frame["segments"] = [", ".join(json.loads(text)) for text in frame["segments"]]
        for name in ("first", "last"):
            frame[name] = pandas.to_datetime(frame[name], unit="s")
        frame["step"] = pandas.to_timedelta(frame["step"], unit="s")
        return frame

    def _verify(self, base: sqlite3.Connection) -> None:
        """Refuse a damaged file: pages that do not fit together, rows that are not as they were written."""
        facts = self.path.stat()
        state = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if state == self._verified:
            return
        (said,) = base.execute("PRAGMA quick_check(1)").fetchone()
        if said != "ok":
            raise sqlite3.DatabaseError(str(said))
        count = 0
        for *entry, checksum in base.execute("SELECT * FROM coverage"):
            count += 1
            if checksum != _sum_row(entry):
                raise sqlite3.DatabaseError("a row is not as it was written")
        if any(counted != count for (counted,) in base.execute("SELECT counted FROM sums")):
            raise sqlite3.DatabaseError("rows are missing")
        self._verified = state

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            base = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
            try:
                base.execute("BEGIN IMMEDIATE")  # a second writer waits here, not halfway
                yield base
                base.execute("COMMIT")
            finally:
                base.close()  # what was not committed is undone
        except (sqlite3.Error, UnicodeError) as error:
            said = " ".join(str(error).split())
            raise BadFile(
                self.path,
                f"is not a coverage store that can be used: {said}. Is it damaged? Then compute it anew.",
            ) from error


def _sum_row(entry: Sequence[Any]) -> int:
    """The CRC-32 of a row's values, of the kinds in which SQLite gives them back."""
    *key, start, segment, share, low, high, events, covered, mark, place = entry
    numbers = [None if value is None else float(value) for value in (share, low, high, covered)]
    return zlib.crc32(repr((*key, start, segment, *numbers, events, mark, place)).encode("utf-8", "replace"))


def _name_rule(rule: Any) -> str:
    return rule if isinstance(rule, str) else f"{float(rule):g}"


def _name_rules(features: Sequence[str], rules: Any) -> dict[str, str]:
    """The rule of each feature, as text."""
    if rules is None:
        raise BadInput('rule must say what covered means in this frame, such as "non_zero". Got none.')
    if not isinstance(rules, Mapping):
        return dict.fromkeys(features, _name_rule(rules))
    lacking = [name for name in features if name not in rules]
    if lacking:
        raise BadInput(f"rule must name a rule for every feature. Got none for {lacking[0]!r}.")
    return {name: _name_rule(rules[name]) for name in features}


def _list_rows(
    frame: pd.DataFrame, by: Sequence[str], starts: Any
) -> dict[str, dict[int, dict[str, tuple[Any, ...]]]]:
    """feature → window → segment → numbers; NaN is None, and so is a missing segment."""
    columns: dict[str, list[Any]] = {}
    for name in NUMBERS:
        if name in frame.columns:
            columns[name] = [None if value != value else value for value in frame[name].tolist()]
        else:
            columns[name] = [None] * len(frame)
    events = [int(value or 0) for value in columns["events"]]
    segments = list(zip(*(frame[name].tolist() for name in by), strict=True)) or [()] * len(frame)
    found: dict[str, dict[int, dict[str, tuple[Any, ...]]]] = {}
    for row, (feature, start) in enumerate(zip(frame["feature"].tolist(), starts.tolist(), strict=True)):
        values = [None if value != value else value for value in segments[row]]
        name = json.dumps(
            [value if isinstance(value, str | int | float) else _text(value) for value in values]
        )
        share, covered = columns["coverage"][row], columns["covered"][row]
        if covered is None and share is not None:
            covered = share * events[row]
        numbers = (share, columns["low"][row], columns["high"][row], events[row], covered)
        there = found.setdefault(str(feature), {}).setdefault(start, {})
        if name in there:
            raise BadInput(f"feature {feature!r} has two rows for one window and segment. Keep one.")
        there[name] = numbers
    return found


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _read_ends(since: Any, until: Any) -> tuple[int, int]:
    first = -(2**62) if since is None else int(parse_time(since, "since").timestamp())
    last = 2**62 if until is None else int(parse_time(until, "until").timestamp())
    if first >= last:
        raise BadInput(f"since must lie before until. Got {since} and {until}.")
    return first, last


def _refuse_mixtures(rows: pd.DataFrame) -> None:
    for name in ("rule", "unit", "step"):
        kinds = rows.groupby("feature")[name].nunique()
        if len(kinds) and kinds.max() > 1:
            feature = kinds.idxmax()
            seen = sorted(map(str, rows.loc[rows["feature"] == feature, name].unique()))
            raise BadInput(f"feature {feature!r} is kept with several {name}s: {', '.join(seen)}. Name one.")


STORE, FILE = "coverage.sqlite", "history.json"
VERSION = 1
LATE = "7d"


@dataclass(frozen=True)
class StoreHistory:
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


def open_history(path: str | PathLike[str]) -> StoreHistory:
    """The history in a folder, or an error that says how to make one."""
    path = Path(path)
    if not (path / FILE).is_file():
        raise BadFile(
            path, "is not a coverage store. Make one with `placings coverage trend EVENTS --store …`."
        )
    try:
        read = parse_json(read_config_text(path / FILE))
        if read["version"] != VERSION:
            raise BadFile(path / FILE, f"has version {read['version']}; this placings knows {VERSION}.")
        done = {str(day): float(mark) for day, mark in read["done"].items()}
        return StoreHistory(path, dict(read["counting"]), done)
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
    sample: SamplingPlan | None = None,
    engine: Backend = None,
    backend: Backend = None,
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
    backend = take_renamed("update_history", "backend", backend, "engine", engine)
    home = Path(path)
    length = parse_window(window)
    margin = parse_window(late, "late")
    mark = as_second(datetime.now(UTC) if watermark is None else watermark, "watermark")
    names = [by] if isinstance(by, str) else list(by or ())
    with opened(table, backend) as source:
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
            zone=zone, since=begin, until=end, position=position, sample=sample, backend=backend,
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
            history = StoreHistory(home, counting, done)
        _write(home, history.counting, done)
        computed.append(begin.replace(tzinfo=None))
        notes += [note for note in found.notes if note not in notes and "Windows without" not in note]
        if on_day is not None:
            on_day(computed[-1], kept.written)
    return Update(tuple(computed), skipped, **totals, notes=tuple(notes))


# -- inside -------------------------------------------------------------------------------------------------


def _start_history(home: Path, counting: dict[str, Any]) -> StoreHistory:
    """The folder's history, begun if there is none; counting in another way than before is refused."""
    if not (home / FILE).is_file():
        if home.is_file() or (home.is_dir() and any(home.iterdir()) and not (home / STORE).is_file()):
            raise BadFile(home, "exists and is not a coverage store. Name a new folder.")
        home.mkdir(parents=True, exist_ok=True)
        fresh = {**counting, "named": None}
        _write(home, fresh, {})
        return StoreHistory(home, fresh, {})
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
    from placings.core import write_text

    text = write_json({"version": VERSION, "counting": dict(counting), "done": dict(done)})
    write_text(home / FILE, text + "\n")


def _list_days(cut: Windowing, first: int, last: int) -> list[tuple[datetime, datetime]]:
    """Begin and end of each day (or longer window) from one second to another, in UTC."""
    many = max(cut.seconds // DAY, 1)
    keys = cut.keys_between(cut.key_of(first), cut.key_of(last))
    starts = cut.starts(np.array([*keys, keys[-1] + many], dtype=np.int64)).astype("datetime64[s]")
    moments = [datetime.fromtimestamp(int(start), UTC) for start in starts.astype(np.int64)]
    return list(pairwise(moments))


def _name(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%MZ")
