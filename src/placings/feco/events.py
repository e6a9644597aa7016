"""Counting covered events: one aggregate over the table for all features, segments and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placings.errors import BadInput, option
from placings.feco.windows import Cut

WITHIN = ("any", "all", "rows")


@dataclass(frozen=True)
class Unit:
    """What is counted: rows, or events of which any, all, or the first rows must have the feature.

    `top` keeps the rows at positions 1 to top; `within` "rows" counts rows but remembers their events.
    """

    event: str | None
    within: str = "any"
    top: int | None = None
    position: str | None = None

    def describe(self) -> str:
        """In words, for tables."""
        first = "" if self.top is None else f" of the first {self.top}"
        if self.event is None or self.within == "rows":
            return "row" + (f" at positions 1 to {self.top}" if self.top else "")
        return {
            "any": f"event, covered if any row{first} is",
            "all": f"event, covered if all rows{first} are",
        }[self.within]


def parse_within(within: Any, event: str | None, position: str | None) -> Unit:
    """`within` as "any", "all", "rows", a number k or "top:5" ("all top:5" asks all of them).

    >>> parse_within("top:5", "search", "rank")
    Unit(event='search', within='any', top=5, position='rank')
    """
    kind, top = within, None
    if isinstance(within, int) and not isinstance(within, bool):
        kind, top = "any", within
    elif isinstance(within, str) and "top:" in within:
        kind, _, number = within.partition("top:")
        kind = kind.strip() or "any"
        top = int(number) if number.strip().isdigit() else 0
    if kind not in WITHIN or (top is not None and top < 1):
        raise BadInput(
            f"within must be 'any', 'all', 'rows', a number of rows such as 5, 'top:5' or 'all top:5'. "
            f"Got {within!r}."
        )
    if top is not None and position is None:
        raise BadInput(
            f"{option('within', value=within)} needs {option('position')} with the column that says "
            "the order shown."
        )
    if kind == "rows" and event is None:
        kind = "any"  # each row is an event already
    return Unit(event, kind, top, position)


def count_covered(
    table: Any,
    conditions: Sequence[Any],
    unit: Unit,
    *,
    by: Sequence[str],
    seconds: Any = None,
    cut: Cut | None = None,
    signed: Mapping[int, Any] | None = None,
) -> Any:
    """The counts as one Ibis aggregate.

    Columns: `by0, by1, …` the segments, `window` (with a cut), `lost` (rows whose event is not known),
    `events`, `rows`, `covered0, covered1, …`; with events and windows `strays` (events whose rows lie
    in several windows); with positions `first_position` and, with events, `repeats` (rows that share
    event and position); `lowest0, …` of `signed` columns; with "rows" the sums of squares and products
    that `cluster_interval` needs.
    """
    if unit.top is not None:
        at = table[unit.position]
        table = table.filter(at.isnull() | (at <= unit.top))
    keys = {f"by{place}": table[name] for place, name in enumerate(by)}
    lowest = {f"lowest{place}": column.min() for place, column in (signed or {}).items()}
    if unit.position is not None:
        lowest["first_position"] = table[unit.position].min()
    if unit.event is None:
        if cut is not None:
            keys["window"] = cut.key(seconds)
        sums = {"events": table.count(), "rows": table.count()}
        sums |= {f"covered{place}": _count(where) for place, where in enumerate(conditions)}
        return _group(table, keys).aggregate(**sums, **lowest)
    return _count_events(
        _gather(table, conditions, unit, keys, seconds, lowest), unit, keys, cut, len(conditions)
    )


def gather_events(
    table: Any, conditions: Sequence[Any], unit: Unit, seconds: Any, given: Sequence[str]
) -> Any:
    """One row an event: `event`, `first` (its time), `covered0, …`, and a value of each column `given`."""
    if unit.top is not None:
        at = table[unit.position]
        table = table.filter(at.isnull() | (at <= unit.top))
    facts = {f"given{place}": table[name].min() for place, name in enumerate(given)}
    gathered = _gather(table, conditions, Unit(unit.event, unit.within), {}, seconds, facts)
    return gathered.drop("rows", "last")


def _gather(
    table: Any,
    conditions: Sequence[Any],
    unit: Unit,
    keys: Mapping[str, Any],
    seconds: Any,
    lowest: Mapping[str, Any],
) -> Any:
    """One row an event (and segment): its rows, its time, and for each feature whether or how often."""
    facts: dict[str, Any] = {"rows": table.count(), **lowest}
    if seconds is not None:
        facts |= {"first": seconds.min(), "last": seconds.max()}
    if unit.position is not None:
        at = table[unit.position]
        facts["repeats"] = at.count() - at.nunique()
    for place, where in enumerate(conditions):
        if unit.within == "rows":
            facts[f"covered{place}"] = _count(where)
        elif unit.within == "all":
            facts[f"covered{place}"] = where.fill_null(False).all()
        else:
            facts[f"covered{place}"] = where.any()
    return table.group_by(event=table[unit.event], **keys).aggregate(**facts)


def _count_events(gathered: Any, unit: Unit, keys: Mapping[str, Any], cut: Cut | None, width: int) -> Any:
    event = gathered.event
    lost = event.isnull() | event.isnan() if event.type().is_floating() else event.isnull()
    groups = {name: gathered[name] for name in keys} | {"lost": lost}
    sums: dict[str, Any] = {"events": gathered.count(), "rows": gathered.rows.sum()}
    if cut is not None:
        groups["window"] = cut.key(gathered["first"])
        sums["strays"] = _count(cut.key(gathered["last"]) != groups["window"])
    if unit.position is not None:
        sums["first_position"] = gathered.first_position.min()
        sums["repeats"] = gathered.repeats.sum()
    for name in gathered.columns:
        if name.startswith("lowest"):
            sums[name] = gathered[name].min()
    if unit.within == "rows":
        sums["rows_squares"] = _square(gathered.rows, gathered.rows)
    for place in range(width):
        covered = gathered[f"covered{place}"]
        if unit.within == "rows":
            sums[f"covered{place}"] = covered.sum()
            sums[f"squares{place}"] = _square(covered, covered)
            sums[f"products{place}"] = _square(covered, gathered.rows)
        else:
            sums[f"covered{place}"] = _count(covered)
    return gathered.group_by(**groups).aggregate(**sums)


def _group(table: Any, keys: Mapping[str, Any]) -> Any:
    return table.group_by(**keys) if keys else table


def _count(where: Any) -> Any:
    """How often a condition is true; faster on DuckDB than a filtered count or a sum."""
    import ibis

    return where.ifelse(ibis.literal(1, "int8"), ibis.null("int8")).count()


def _square(left: Any, right: Any) -> Any:
    """Sums of products in float64, which whole numbers of this size fit exactly."""
    return (left.cast("float64") * right.cast("float64")).sum()
