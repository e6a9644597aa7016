"""The steps of a join in their order, and the counts that they leave behind."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from placings.clicks import joins
from placings.clicks.chains import judge_searches, mark_chains
from placings.clicks.join_report import RULES, JoinReport
from placings.clicks.labels import label_items
from placings.clicks.schema import ACTION, Layout, take_columns
from placings.data.engines import Source

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
        source: Source,
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

    def read(self, done: Source) -> None:
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

    def report(self, table: Any, settings: Mapping[str, Any], done: Source) -> JoinReport:
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
            },
            "items": {
                "in_rows": made["showings"], "apart": apart, "no_id": sums["no_item"],
                "double": sums["double"], "of_no_search": entries["items_lost"],
                "of_repeated": entries["items_repeated"],
            },
            "actions": {
                **{name: fates.get(name, 0) for name in joins.FATES},
                **{name: actions[name] for name in ("no_id", "no_time", "unknown_action")},
                "duplicate": self.counts["fates"]["copies"].sum(),
            },
            "outcomes": {name: sums[name] for name in RULES["outcomes"]},
        }  # fmt: skip
        read = {
            "searches": entries["read"], "items": entries["items"], "actions": actions["read"],
            "outcomes": sums["searches"],
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
