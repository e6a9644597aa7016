"""Served searches and what people did with them as two parquet files, as `placings log join` reads them.

The store is read twice in one transaction, so that both passes see the same moment while the service goes
on: first for the kinds of all fields, then for the rows, some hundreds at a time.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.core import BadFile, hold_part, parse_json, swap_folder, sync_file
from placings.logs import ITEM_ID, MADE, OPT_OUT, OWN, POSITION, SEARCH, SEARCH_ID
from placings.serve.event_store import as_micros, open_store

if TYPE_CHECKING:
    import pyarrow as pa

SEARCHES, ACTIONS, UNTRUSTED, REPORT = (
    "searches.parquet",
    "actions.parquet",
    "untrusted.parquet",
    "export.json",
)
RESULTS = "results"
BATCH = 500  # searches in memory at a time
FAR = 86_400_000_000  # microseconds: a caller's time of a search that is further off ours is not used
OUTER = {  # columns of a search that are always there
    **{name: {"number": "number", "id": "text"}.get(kind, kind) for name, kind in SEARCH.items()},
    **dict.fromkeys(("user_id", "arm", "model", "fallback"), "text"),
    **dict.fromkeys(("swapped", "swapped_with", "swap_reach"), "whole"),
}
INNER = {  # and those of an item
    ITEM_ID: "text", POSITION: "whole", "engine_position": "whole", "score": "number",
    "past_clicks": "number", "shown_probability": "number", "team": "text",
}  # fmt: skip
PLACE = {  # of other kinds the join would refuse them
    **dict.fromkeys(("name", "locality", "street", "neighbourhood", "borough", "country"), "text"),
    **dict.fromkeys(("type", "zone"), "text"), **dict.fromkeys(("lat", "lon", "weight", OWN), "number"),
}  # fmt: skip
DONE = {
    "search_id": "text", "item_id": "text", "time": "time", "action": "text", "event_id": "text",
    "user_id": "text", "position": "whole", "visible": "whole",
}  # fmt: skip
ASKED_SHOWN = "SELECT search_id, time, user_id, body FROM shown WHERE time >= ? AND time < ? ORDER BY time, 1"
EVENT = "e.event_id, e.search_id, e.item_id, e.action, e.time, e.user_id, e.body"
ASKED_DONE = f"""SELECT {EVENT} FROM event e JOIN shown s ON s.search_id = e.search_id
WHERE e.trusted = 1 AND s.time >= ? AND s.time < ? ORDER BY e.number"""
ASKED_UNTRUSTED = f"""SELECT {EVENT} FROM event e WHERE e.trusted = 0 AND e.time >= ? AND e.time < ?
ORDER BY e.number"""
COUNT_ORPHANS = """SELECT count(*) FROM event e WHERE e.trusted = 1 AND e.time >= ? AND e.time < ?
AND NOT EXISTS (SELECT 1 FROM shown s WHERE s.search_id = e.search_id)"""


@dataclass
class ExportReport:
    """What was written, and what was not: each event of the time asked for is in one of the three counts.

    `actions` belong to the exported searches, whenever they came in. `orphans` are events whose impression is
    not in the store; they are nowhere in the files. `untrusted` ones are in a file of their own. `last_event`
    is the number of the newest event that the store held. `renamed` are fields whose names the join needs for
    something else, `unfit` how many values were left out because their column holds another kind.
    """

    searches: int = 0
    items: int = 0
    actions: int = 0
    orphans: int = 0
    untrusted: int = 0
    last_event: int = 0
    since: str | None = None
    until: str | None = None
    unfit: int = 0
    renamed: dict[str, str] = field(default_factory=dict)


def export_log(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    since: float | None = None,
    until: float | None = None,
) -> ExportReport:
    """Write `searches.parquet`, `actions.parquet`, `untrusted.parquet` and `export.json` into a folder.

    `since` and `until` (seconds since 1970, the second excluded) choose searches; their actions come along
    whenever they happened. The folder appears whole or not at all; one from an earlier export is replaced,
    any other that holds something is refused.
    """
    out = Path(out)
    if out.exists() and not (out.is_dir() and ((out / REPORT).is_file() or not any(out.iterdir()))):
        raise BadFile(out, "is there and holds no export. Name a new folder.")
    out.parent.mkdir(parents=True, exist_ok=True)
    span = (as_micros(since or 0.0), 2**62 if until is None else as_micros(until))
    report = ExportReport(
        since=None if since is None else _as_iso(span[0]), until=None if until is None else _as_iso(span[1])
    )
    with hold_part(out, folder=True) as part, open_store(data) as connection:
        part.chmod(0o700)
        connection.execute("BEGIN")  # one moment for all questions
        _write_searches(connection, span, part / SEARCHES, report)
        report.actions = _write_events(connection, ASKED_DONE, span, part / ACTIONS)
        report.untrusted = _write_events(connection, ASKED_UNTRUSTED, span, part / UNTRUSTED)
        report.orphans = int(connection.execute(COUNT_ORPHANS, span).fetchone()[0])
        report.last_event = int(
            connection.execute("SELECT coalesce(max(number), 0) FROM event").fetchone()[0]
        )
        connection.execute("COMMIT")
        (part / REPORT).write_text(json.dumps(asdict(report), ensure_ascii=False, indent=1), encoding="utf-8")
        for each in part.iterdir():
            each.chmod(0o600)
            sync_file(each)
        swap_folder(part, out)
    return report


# -- rows --------------------------------------------------------------------------------------------


def _write_searches(
    connection: sqlite3.Connection, span: tuple[int, int], path: Path, report: ExportReport
) -> None:
    import pyarrow as pa

    outer, inner = Kinds(OUTER, {OPT_OUT: "flag"}), Kinds(INNER, PLACE)
    for search, items in _read_searches(connection, span):
        outer.see(search)
        for item in items:
            inner.see(item)
    of_search = {name: _free(name, {*MADE, *INNER, RESULTS}) for name in outer.kinds}
    of_item = {name: _free(name, {*MADE, *of_search.values(), RESULTS}) for name in inner.kinds}
    report.renamed = {name: new for name, new in [*of_search.items(), *of_item.items()] if new != name}
    struct = pa.struct([(of_item[name], as_type(kind)) for name, kind in inner.kinds.items()])
    columns = [(of_search[name], as_type(kind)) for name, kind in outer.kinds.items()]
    schema = pa.schema([*columns, (RESULTS, pa.list_(struct))])

    def fit(kinds: Kinds, names: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Any]:
        return {names[name]: fit_value(kind, row.get(name), report) for name, kind in kinds.kinds.items()}

    with _open_writer(path, schema) as writer:
        batch: list[dict[str, Any]] = []
        for search, items in _read_searches(connection, span):
            results = [fit(inner, of_item, item) for item in items]
            batch.append({**fit(outer, of_search, search), RESULTS: results})
            report.searches += 1
            report.items += len(items)
            if len(batch) >= BATCH:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch.clear()
        writer.write_table(pa.Table.from_pylist(batch, schema))


def _read_searches(
    connection: sqlite3.Connection, span: tuple[int, int]
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The searches of the store and their lists, by time; objects are taken apart, as in every log."""
    for search_id, at, user, body in connection.execute(ASKED_SHOWN, span):
        told = parse_json(body)
        items = [_flatten(item) for item in told.pop(RESULTS, None) or []]
        known = {SEARCH_ID: search_id, "user_id": user, "time": choose_time(told.get("time"), at)}
        yield {**_flatten(told), **known}, items


def _flatten(told: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """`{"price": {"amount": 3}}` as `{"price.amount": 3}`."""
    found: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, dict):
            found |= _flatten(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found


def _free(name: str, taken: set[str]) -> str:
    """A name that the join does not need for something else."""
    while name in taken:
        name = f"sent_{name}"
    return name


def choose_time(told: Any, at: int) -> int:
    """The time that the features saw, if it is near the service's own clock."""
    if isinstance(told, str):
        try:
            moment = datetime.fromisoformat(told)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            micros = round(moment.timestamp() * 1e6)
        except (ValueError, OverflowError):
            return at
        return micros if abs(micros - at) < FAR else at
    return at


def _write_events(connection: sqlite3.Connection, asked: str, span: tuple[int, int], path: Path) -> int:
    import pyarrow as pa

    schema = pa.schema([(name, as_type(kind)) for name, kind in DONE.items()])
    names = ("event_id", "search_id", "item_id", "action", "time", "user_id")
    ignored, count = ExportReport(), 0
    found = connection.execute(asked, span)
    with _open_writer(path, schema) as writer:
        while True:
            rows = found.fetchmany(10 * BATCH)
            made = []
            for *values, body in rows:
                event = {**parse_json(body), **dict(zip(names, values, strict=True))}
                made.append({name: fit_value(kind, event.get(name), ignored) for name, kind in DONE.items()})
            writer.write_table(pa.Table.from_pylist(made, schema))
            count += len(made)
            if not rows:
                return count


def _open_writer(path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)


# -- kinds of values ---------------------------------------------------------------------------------


class Kinds:
    """The kind of each column, as wide as its values need: fixed ones stay what they are.

    >>> kinds = Kinds({"name": "text"})
    >>> for row in ({"name": 1, "stars": 4, "odd": 1}, {"stars": 4.5, "tags": ["a"], "odd": "x"}):
    ...     kinds.see(row)
    >>> kinds.kinds
    {'name': 'text', 'stars': 'number', 'odd': 'text', 'tags': 'json'}
    """

    def __init__(self, fixed: Mapping[str, str], known: Mapping[str, str] | None = None) -> None:
        self.kinds = dict(fixed)
        self._known = {**(known or {}), **fixed}

    def see(self, row: Mapping[str, Any]) -> None:
        """Take a row's values into account."""
        for name, value in row.items():
            if name in self._known:
                self.kinds.setdefault(name, self._known[name])
            elif value is not None:
                kind = _find_kind(value)
                before = self.kinds.setdefault(name, kind)
                if before != kind:
                    self.kinds[name] = "number" if {before, kind} == {"whole", "number"} else "text"


def _find_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int):
        return "whole" if -(2**63) <= value < 2**63 else "number"
    if isinstance(value, float):
        return "number"
    return "text" if isinstance(value, str) else "json"


def as_type(kind: str) -> Any:
    """The Arrow type of a kind; objects and lists are JSON texts."""
    import pyarrow as pa

    if kind == "time":
        return pa.timestamp("us")
    return {"number": pa.float64(), "whole": pa.int64(), "flag": pa.bool_()}.get(kind, pa.string())


def fit_value(kind: str, value: Any, report: ExportReport) -> Any:
    """The value as its column's kind; None, and counted, where it is of another."""
    if value is None or (kind == "text" and isinstance(value, str)):
        return value
    if kind in ("text", "json"):
        return json.dumps(value, ensure_ascii=False)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "flag" and isinstance(value, bool):
        return value
    if kind == "number" and number:
        return float(value)
    if kind in ("whole", "time") and number and value == int(value) and abs(value) < 2**63:
        return int(value)
    report.unfit += 1
    return None


def _as_iso(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat().replace("+00:00", "Z")
