"""Logs to query groups: the list shown around each action, one row an item, ready for features.

`join_logs` is the door. The steps are Ibis expressions (joins, chains, labels, snapshots), asked of DuckDB or
Spark; only counts come to Python until rows are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from placings.core import BadFile, BadInput, UnknownName, keep_old_names, option, take_renamed
from placings.data import Backend, Table
from placings.logs import join_expressions as joins
from placings.logs.chains import judge_searches, mark_chains
from placings.logs.click_log import ClickLog
from placings.logs.column_names import Columns, check_columns, refuse_unused, take_part
from placings.logs.epochs import check_unit
from placings.logs.join_report import RULES, JoinReport
from placings.logs.labels import FREQUENCIES, check_grades, label_items, unite_queries
from placings.logs.schema import (
    ACTION,
    ITEM,
    NAMED,
    SEARCH,
    SEARCH_ID,
    TIME,
    TRUTH,
    Layout,
    LogReading,
    OpenedLog,
    find_layout,
    open_log,
    parse_seconds,
    take_columns,
)
from placings.logs.snapshots import join_snapshots, note_snapshots, open_snapshots

if TYPE_CHECKING:
    pass

MOST_NAMED = 10  # actions without a grade that a report names


class JoinSteps:
    """What is asked of the engine, in order; what later steps ask twice is held there.

    Most searches are whole: their lists are spread and joined as they come. The few `odd` ones, with an item
    twice or without a position, take the dearer way that numbers and compares their items.
    """

    heads: Any
    labels: Any
    odd: Any

    def __init__(
        self,
        source: OpenedLog,
        layout: Layout,
        stack: ExitStack,
        grades: Mapping[str, float],
        seconds: Mapping[str, int],
        edits: bool,
    ) -> None:
        self.source, self.layout, self.stack = source, layout, stack
        self.grades, self.seconds, self.edits = grades, seconds, edits
        self.base = joins.open_items(source, layout)
        self.counts: dict[str, Any] = {}

    def read(self, done: OpenedLog) -> None:
        """Searches and their chains, the fate of actions, labels, outcomes."""
        entries = self._hold(joins.gather_entries(self.source, self.layout))
        chained = mark_chains(joins.gather_heads(entries), gap=self.seconds["gap"], edits=self.edits)
        heads = self._hold(chained)
        self.counts["entries"] = self._ask(joins.count_entries(entries, heads))
        items = joins.spread_items(self.source, self.base, self.layout)
        self.odd = self._hold(self._find_odd(items, heads))
        taken = done.table.select(**take_columns(done, ACTION, need=tuple(ACTION)))
        graded = joins.grade_actions(taken, self.grades)
        self.counts["actions"] = self._ask(joins.count_actions(graded))
        if self.counts["actions"]["unknown_action"]:
            named = self.source.ask(joins.name_unknown(graded, MOST_NAMED))
            names = [name if isinstance(name, str) else "null" for name in named["action"].tolist()]
            self.counts["unknown"] = dict(zip(names, map(int, named["count"]), strict=True))
        each = self._hold(joins.unite_actions(graded))
        hits = self._hold(joins.find_hits(items, heads, each))
        limits = {name: self.seconds[name] for name in ("window", "slack")}
        judged = self._hold(joins.judge_actions(each, heads, hits, **limits))
        self.counts["fates"] = self.source.ask(joins.count_fates(judged))
        self.labels = self._hold(label_items(judged))
        touched = taken.filter(taken.search_id.notnull())
        self.heads = self._hold(judge_searches(heads, self.labels, touched))

    def make_rows(self, negatives: bool) -> Any:
        """One row for each item of each search that is wanted."""
        import ibis

        zero = joins.make_number(0.0)
        heads = self.heads if negatives else self.heads.filter(self.heads.successful)
        heads = heads.drop("size", "items", "entries", *(() if negatives else ("successful", "outcome")))
        whole = self.base.anti_join(self.odd, joins.KEYS).inner_join(heads, joins.KEYS)
        rows = joins.spread_items(self.source, whole, self.layout)
        rows = rows.filter(rows.item_id.notnull())
        odd = self.base.semi_join(self.odd, joins.KEYS)
        kept = joins.keep_highest(joins.spread_items(self.source, odd, self.layout, numbered=True))
        rows = rows.union(kept.inner_join(heads, joins.KEYS).select(*rows.columns))
        rows = rows.left_join(self.labels, ["search_id", "item_id"]).drop("search_id_right", "item_id_right")
        return rows.mutate(label=ibis.coalesce(rows.label, zero))

    def report(self, table: Any, settings: Mapping[str, Any], done: OpenedLog) -> JoinReport:
        """All counts: what is in the rows is counted there, what is not where it was left out."""
        entries, actions = self.counts["entries"], self.counts["actions"]
        made = self._ask(self._count_rows(table))
        sums = self._ask(self._count_searches())
        fates = dict(zip(self.counts["fates"]["fate"], self.counts["fates"]["actions"], strict=True))
        apart = 0 if settings["unsuccessful"] == "negatives" else sums["apart"]
        parts = {
            "searches": {
                "used": sums["searches"], "same": sums["entries"] - sums["searches"],
                **{name: entries[name] for name in ("no_id", "no_time", "repeated")},
                "cut": len(self.source.cut),
            },
            "items": {
                "in_rows": made["showings"], "apart": apart, "no_id": sums["no_item"],
                "double": sums["double"], "of_no_search": entries["items_lost"],
                "of_repeated": entries["items_repeated"],
            },
            "actions": {
                **{name: fates.get(name, 0) for name in joins.FATES},
                **{name: actions[name] for name in ("no_id", "no_time", "unknown_action")},
                "duplicate": self.counts["fates"]["copies"].sum(), "cut": len(done.cut),
            },
            "outcomes": {name: sums[name] for name in RULES["outcomes"]},
        }  # fmt: skip
        read = {
            "searches": entries["read"] + len(self.source.cut), "items": entries["items"],
            "actions": actions["read"] + len(done.cut), "outcomes": sums["searches"],
        }  # fmt: skip
        notes = {
            "rows": made["rows"], "groups": made["groups"], "labelled_rows": made["labelled"],
            "empty_lists": entries["empty"], "missing_positions": sums["lost"],
            "chains": sums["chains"], "failed_chains": sums["failed_chains"],
        }  # fmt: skip
        ordered = {
            part: _as_whole({name: parts[part][name] for name in rules}) for part, rules in RULES.items()
        }
        return JoinReport(
            read,
            **ordered,
            notes=notes,
            settings=settings,
            ignored=tuple(name for name in done.table.columns if name not in ACTION),
            unknown=self.counts.get("unknown", {}),
            times={
                part: log.times
                for part, log in {"searches": self.source, "actions": done}.items()
                if log.times
            },
            cut=(*self.source.cut, *done.cut),
        )

    def _find_odd(self, items: Any, heads: Any) -> Any:
        """The searches with doubles or faults, and how many of each."""
        import ibis

        doubles, faults = joins.find_doubles(items, heads), joins.find_faults(items, heads)
        zero = ibis.literal(0, "int64")
        both = doubles.mutate(no_item=zero, lost=zero).union(
            faults.mutate(double=zero).select(*joins.KEYS, "double", "no_item", "lost")
        )
        return both.group_by(*joins.KEYS).aggregate(
            double=both.double.sum(), no_item=both.no_item.sum(), lost=both.lost.sum()
        )

    def _count_rows(self, table: Any) -> Any:
        """One row: rows, groups, rows with a label, and the showings that they stand for."""
        showings = table.impressions.sum() if "impressions" in table.columns else table.count()
        return table.aggregate(
            rows=table.count(),
            groups=table.search_id.nunique(),
            labelled=joins.count_where(table.label > 0),
            showings=showings,
        )

    def _count_searches(self) -> Any:
        """One row: searches, outcomes and chains, and the items that are in no row."""
        import ibis

        found = self.heads.left_join(self.odd, joins.KEYS)
        left_out = ibis.coalesce(found.double, 0) + ibis.coalesce(found.no_item, 0)
        return found.aggregate(
            searches=found.count(),
            entries=found.entries.sum(),
            double=found.double.sum(),
            no_item=found.no_item.sum(),
            lost=found.lost.sum(),
            apart=found.successful.ifelse(0, found["items"] - left_out).sum(),
            chains=joins.count_where(found.chain_last),
            failed_chains=joins.count_where(found.chain_last & (found.outcome == "failed")),
            **{name: joins.count_where(found.outcome == name) for name in RULES["outcomes"]},
        )

    def _hold(self, expression: Any) -> Any:
        return self.stack.enter_context(self.source.holding(expression))

    def _ask(self, expression: Any) -> dict[str, int]:
        """The counts of one row; a sum of nothing is null on every engine, and means 0."""
        row = self.source.ask(expression).iloc[0]
        return _as_whole({str(name): row[name] for name in row.index})


def _as_whole(counts: Mapping[str, Any]) -> dict[str, int]:
    return {name: 0 if count is None or count != count else int(count) for name, count in counts.items()}


GROUPS = ("search", "query")
UNSUCCESSFUL = ("report", "negatives")
CHAIN = ("chain_id", "chain_step", "chain_last")
PARTS = ("searches", "actions", "snapshots")  # the files of a join, as `columns` may name them

__getattr__ = keep_old_names(__name__, {"Joined": "ClickLog"})


def join_logs(
    searches: Table,
    actions: Table,
    *,
    grades: Mapping[str, float] | None = None,
    engine: Backend = None,
    backend: Backend = None,
    group: str = "search",
    unsuccessful: str = "report",
    snapshots: Table | None = None,
    truth: Table | None = None,
    window: int | str = "1h",
    slack: int | str = "5s",
    gap: int | str = "30s",
    edits: bool = True,
    frequency: str = "rate",
    memory: str | None = None,
    columns: Columns | None = None,
    time_unit: str | None = None,
    strict: bool = False,
) -> ClickLog:
    """The rows of a log of searches and a log of actions: each list shown, with a label for each item.

    The logs are paths (JSONL, parquet), tables in memory or Ibis tables, as docs/log_schema.md tells.
    `grades` maps actions to labels (click 1, cart 2, purchase 3); of several actions on an item the highest
    counts. An action counts if it comes at most `window` after its search and at most `slack` before it
    (clocks differ).
    `group` "search" makes one group of each search, "query" one of each distinct query with click frequencies
    as labels (`frequency` "rate" or "share", see `labels.unite_queries`). Searches without a used
    action are left out of the rows ("report") or stay with label 0 and columns `successful` and `outcome`
    ("negatives"); `.unsuccessful` has them in both cases. `gap` and `edits` say which searches form a
    chain of growing prefixes. `snapshots` (item_id, time, features) join as of the search's time, or, where
    they have no time, as they are; `truth` (search_id, target_id, kind) of a simulated log gives `kind` and
    `is_target`. `memory` bounds embedded DuckDB ("6GB"), which then spills to disk.

    `columns` says what the files call our columns: {"search_id": "sid", "results": "products"}; a name such
    as "actions.time" is of that file alone. `results` may be objects or plain ids. Times that are numbers are
    seconds or milliseconds since 1970, told by their size or by `time_unit`. A last line of JSONL that ends
    early is counted and passed over; with `strict` it is an error.

    >>> from datetime import datetime
    >>> shown = [{"item_id": "a", "position": 1}, {"item_id": "b", "position": 2}]
    >>> search = {"search_id": "s", "time": datetime(2024, 5, 1, 8), "query": "haupt", "results": shown}
    >>> click = {"search_id": "s", "item_id": "b", "time": datetime(2024, 5, 1, 8, 1), "action": "click"}
    >>> joined = join_logs([search], [click, click])
    >>> joined.rows["label"].tolist(), joined.report.actions["duplicate"]
    ([0.0, 1.0], 1)
    """
    backend = take_renamed("join_logs", "backend", backend, "engine", engine)
    for name, value, known in (
        ("group", group, GROUPS), ("unsuccessful", unsuccessful, UNSUCCESSFUL),
        ("frequency", frequency, FREQUENCIES),
    ):  # fmt: skip
        if value not in known:
            raise UnknownName(name, str(value), known)
    if group == "query" and truth is not None:
        raise BadInput(
            f"truth tells of single searches. Got {option('group', value='query')}. Leave one of them out."
        )
    chosen = check_grades(grades)
    named = check_columns(columns, NAMED, PARTS)
    check_unit(time_unit)
    reading = {part: LogReading(take_part(named, part, PARTS), time_unit, strict) for part in PARTS}
    seconds = {
        "window": parse_seconds(window, "window"),
        "slack": parse_seconds(slack, "slack"),
        "gap": parse_seconds(gap, "gap"),
    }
    stack = ExitStack()
    try:
        source = _open(searches, backend, memory, stack, reading["searches"])
        done = open_log(actions, "actions", source.backend, reading=reading["actions"])
        opened = None
        if snapshots is not None:
            opened = open_snapshots(snapshots, source.backend, reading["snapshots"])
        _refuse_unmapped(named, [source, done, *([] if opened is None else [opened.source])])
        plan = JoinSteps(source, find_layout(source), stack, chosen, seconds, edits)
        plan.read(done)
        rows = plan.make_rows(unsuccessful == "negatives")
        context = [*SEARCH, *plan.layout.extras]
        if opened is not None:
            rows = join_snapshots(rows, opened)
        if group == "query":
            rows = unite_queries(rows, context, frequency=frequency)
        elif truth is not None:
            rows = _add_truth(rows, truth, source.backend)
        rows = _arrange(rows, plan.layout)
        table = stack.enter_context(source.holding(rows))
        settings = {
            "grades": chosen, "group": group, "unsuccessful": unsuccessful, **seconds, "edits": edits,
            **({"frequency": frequency} if group == "query" else {}), "engine": source.kind,
        }  # fmt: skip
        report = plan.report(table, settings, done)
        if opened is not None:
            report = note_snapshots(report, opened, table)
        apart = plan.heads.filter(~plan.heads.successful).drop("items", "entries", "successful")
        return ClickLog._of_join(source, table, apart.order_by([TIME, SEARCH_ID]), report, stack)
    except BaseException:
        stack.close()
        raise


def _refuse_unmapped(columns: Columns, opened: list[OpenedLog]) -> None:
    """Refuse a name of theirs that none of the files has."""
    used = {name for log in opened for name in log.mapped}
    where = " or ".join(log.name for log in opened)
    refuse_unused(columns, used, where, [name for log in opened for name in log.there])


def _open(
    searches: Table, backend: Backend, memory: str | None, stack: ExitStack, reading: LogReading
) -> OpenedLog:
    source = open_log(searches, "searches", backend, reading=reading)
    if source.own:
        stack.callback(source.backend.disconnect)
    if memory is not None:
        if not source.own:
            raise BadInput("memory bounds the embedded backend. Got one of your own: set its bound there.")
        if not re.fullmatch(r"\d+(\.\d+)? ?[KMGT]i?B", str(memory)):
            raise BadInput(f"memory must be a size such as '6GB' or '800MB'. Got {memory!r}.")
        source.backend.con.execute(f"SET memory_limit = '{memory}'")
    return source


def _add_truth(rows: Any, truth: Table, backend: Any) -> Any:
    """`kind` and `is_target` (1.0 of the item really meant) from the truth of a simulated log."""
    source = open_log(truth, "truth", backend)
    known = source.table.select(**take_columns(source, TRUTH, need=("search_id", "target_id")))
    once = known.group_by("search_id").aggregate(target_id=known.target_id.min(), kind=known.kind.min())
    clash = [name for name in ("kind", "is_target") if name in rows.columns]
    if clash:
        raise BadFile(source.name, f"column {clash[0]!r} is in the searches already. Rename or drop it.")
    joined = rows.left_join(once, "search_id").drop("search_id_right")
    hit = (joined.item_id == joined.target_id).ifelse(1, 0)
    return joined.mutate(is_target=hit.cast("float64")).drop("target_id")


def _arrange(rows: Any, layout: Layout) -> Any:
    """The columns in the order that the documentation has."""
    first = [*SEARCH, *layout.extras, *ITEM, *layout.fields]
    rest = [name for name in rows.columns if name not in first and name not in ("label", *CHAIN)]
    chain = [name for name in CHAIN if name in rows.columns]
    return rows.select(*first, *rest, "label", *chain)
