"""The join as Ibis expressions: entries of the log become searches, lists become rows, actions get a fate.

Nothing here depends on the order of lines in a file, and every choice between two rows has a rule, so that
DuckDB and Spark give the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placings.data import OpenedTable
from placings.logs.schema import SEARCH, Layout, take_columns, take_item

KEYS = ("search_id", "time")
USED = ("used", "out_of_order")
FATES = (*USED, "early", "late", "not_in_list", "orphaned")


# -- searches -------------------------------------------------------------------------------------------


def gather_entries(source: OpenedTable, layout: Layout) -> Any:
    """What the log has of each search: its columns and the `size` of its list; flat rows are put together."""
    taken = take_columns(source, SEARCH, need=())
    table = source.table
    if layout.nested:
        size = table.results.isnull().ifelse(0, table.results.length())
        size = size.cast("int32").cast("int64")  # Spark's lengths are int32, which Ibis does not know
        return table.select(**taken, **{name: table[name] for name in layout.extras}, size=size)
    flat = table.select(**taken)
    rest = {name: flat[name].min() for name in SEARCH if name not in KEYS}
    return flat.group_by(*KEYS).aggregate(**rest, size=flat.count())


def gather_heads(entries: Any) -> Any:
    """One row a search: the entries of its id at the earliest time.

    Entries of one id and time are one search, whose lists are united; where their columns differ, the
    smallest value stands. Entries of the id at a later time are repeats.
    """
    good = entries.filter(entries.search_id.notnull() & entries.time.notnull())
    firsts = good.group_by("search_id").aggregate(time=good.time.min())
    first = good.semi_join(firsts, KEYS)
    rest = [name for name in first.columns if name not in (*KEYS, "size")]
    facts = {name: _pick(first[name]) for name in rest}
    sizes = {"size": first["size"].max(), "items": first["size"].sum(), "entries": first.count()}
    return first.group_by(*KEYS).aggregate(**facts, **sizes)


def count_entries(entries: Any, heads: Any) -> Any:
    """One row: entries read and their items; those without id or time, and of an id at a later time."""
    import ibis

    mark = heads.select(*KEYS).mutate(placings_head=ibis.literal(True))
    found = entries.left_join(mark, KEYS)
    no_id = found.search_id.isnull()
    no_time = found.search_id.notnull() & found.time.isnull()
    later = ~(no_id | no_time) & found.placings_head.isnull()
    return found.aggregate(
        read=found.count(),
        items=_total(found["size"]),
        no_id=count_where(no_id),
        no_time=count_where(no_time),
        repeated=count_where(later),
        items_lost=_total((no_id | no_time).ifelse(found["size"], 0)),
        items_repeated=_total(later.ifelse(found["size"], 0)),
        empty=count_where(found["size"] == 0),
    )


def _pick(column: Any) -> Any:
    kind = column.type()
    simple = kind.is_string() or kind.is_numeric() or kind.is_temporal()
    return column.min() if simple else column.arbitrary()


# -- items ----------------------------------------------------------------------------------------------


def open_items(source: OpenedTable, layout: Layout) -> Any:
    """`search_id`, `time` and the list `results` of each entry; of a flat log the rows."""
    taken = take_columns(source, {name: SEARCH[name] for name in KEYS}, need=())
    if layout.nested:
        return source.table.select(**taken, results=source.table.results)
    return source.table.select(**taken, **take_item(source, source.table, layout))


def spread_items(source: OpenedTable, base: Any, layout: Layout, *, numbered: bool = False) -> Any:
    """One row for each item of each list, beside the other columns of `base`.

    With `numbered`, items without a position get one: the place in the list, or in a flat log the places
    after the others, by score. Without it they stay null, which is much cheaper. In a list of ids the
    place in the list is the position.
    """
    import ibis

    if not layout.nested:
        return _number_flat(base) if numbered else base
    rest = [name for name in base.columns if name != "results"]
    if layout.plain:
        rows = base.unnest("results", offset="place")
        taken = take_item(source, rows["results"], layout)
        taken["position"] = (rows.place + 1).cast("int64")
        return rows.select(*rest, **taken)
    if not numbered:
        rows = base.select(*rest, item=base.results.unnest())
        return rows.select(*rest, **take_item(source, rows["item"], layout))
    rows = base.unnest("results", offset="place")
    taken = take_item(source, rows["results"], layout)
    taken["position"] = ibis.coalesce(taken["position"], (rows.place + 1).cast("int64"))
    return rows.select(*rest, **taken)


def _number_flat(flat: Any) -> Any:
    import ibis

    lost = flat.position.isnull()
    after = ibis.window(
        group_by=[*(flat[name] for name in KEYS), lost],
        order_by=[ibis.desc(flat.score, nulls_first=False), ibis.asc(flat.item_id, nulls_first=False)],
    )
    last = flat.position.max().over(ibis.window(group_by=[flat[name] for name in KEYS]))
    place = ibis.coalesce(last, 0) + ibis.row_number().over(after) + 1
    return flat.mutate(position=ibis.coalesce(flat.position, place.cast("int64")))


def find_doubles(items: Any, heads: Any) -> Any:
    """Searches with items that stand in the list more than once: the keys, and `double` items too many."""
    there = items.filter(items.item_id.notnull())
    often = there.group_by(*KEYS, "item_id").aggregate(copies=there.count())
    twice = often.filter(often.copies > 1).semi_join(heads, KEYS)
    return twice.group_by(*KEYS).aggregate(double=_total(twice.copies) - twice.count())


def find_faults(items: Any, heads: Any) -> Any:
    """Searches with items that lack an id or a position: the keys, `no_item` and `lost`, how many."""
    odd = items.filter(items.item_id.isnull() | items.position.isnull()).semi_join(heads, KEYS)
    no_item = odd.item_id.isnull()
    return odd.group_by(*KEYS).aggregate(no_item=count_where(no_item), lost=count_where(~no_item))


def keep_highest(items: Any) -> Any:
    """The items with an id; of doubles the one highest in the list (by position, score, other fields)."""
    import ibis

    there = items.filter(items.item_id.notnull())
    keys = [*KEYS, "item_id"]
    rest = [name for name in there.columns if name not in (*keys, "position", "score")]
    simple = [name for name in rest if not there[name].type().is_nested()]
    order = [
        ibis.asc(there.position, nulls_first=False),
        ibis.desc(there.score, nulls_first=False),
        *(ibis.asc(there[name], nulls_first=False) for name in simple),
    ]
    place = ibis.row_number().over(ibis.window(group_by=[there[name] for name in keys], order_by=order))
    marked = there.mutate(placings_place=place)
    return marked.filter(marked.placings_place == 0).drop("placings_place")


# -- actions --------------------------------------------------------------------------------------------


def count_actions(actions: Any) -> Any:
    """One row: how many actions cannot be placed at all, each counted at its first fault."""
    no_id = actions.search_id.isnull() | actions.item_id.isnull()
    no_time = ~no_id & actions.time.isnull()
    unknown = ~no_id & ~no_time & actions.grade.isnull()
    return actions.aggregate(
        read=actions.count(),
        no_id=count_where(no_id),
        no_time=count_where(no_time),
        unknown_action=count_where(unknown),
    )


def grade_actions(actions: Any, grades: Mapping[str, float]) -> Any:
    """The actions with `grade`, null where the map does not know the action."""
    import ibis

    pairs = [(name, make_number(grade)) for name, grade in grades.items()]
    return actions.mutate(grade=actions.action.cases(*pairs, else_=ibis.null("float64")))


def name_unknown(actions: Any, most: int) -> Any:
    """The actions that have no grade, by name: `action` and `count`, the most frequent first."""
    import ibis

    whole = actions.search_id.notnull() & actions.item_id.notnull() & actions.time.notnull()
    unknown = actions.filter(whole & actions.grade.isnull())
    counts = unknown.group_by("action").aggregate(count=unknown.count())
    return counts.order_by(ibis.desc("count"), ibis.asc("action", nulls_first=False)).limit(most)


def unite_actions(actions: Any) -> Any:
    """Each action once (search, item, action and time), with `copies`, how often it was logged."""
    whole = actions.filter(
        actions.search_id.notnull()
        & actions.item_id.notnull()
        & actions.time.notnull()
        & actions.grade.notnull()
    )
    keys = ("search_id", "item_id", "action", "time", "grade")
    return whole.group_by(*keys).aggregate(copies=whole.count())


def find_hits(items: Any, heads: Any, actions: Any) -> Any:
    """The (search, item) pairs of the actions that were in the list shown."""
    there = items.filter(items.item_id.notnull()).semi_join(actions, ["search_id", "item_id"])
    return there.semi_join(heads, KEYS).select("search_id", "item_id").distinct()


def judge_actions(actions: Any, heads: Any, hits: Any, *, window: int, slack: int) -> Any:
    """Each action with its `fate`, one of FATES: the first that fits, from the search to the list.

    Orphaned: no such search. Early: more than `slack` seconds before its search; out of order: at most so
    much before it, and used. Late: more than `window` seconds after it. Not in list: the item was not shown.
    """
    import ibis

    when = heads.select("search_id", shown=heads.time)
    found = actions.left_join(when, "search_id").drop("search_id_right")
    marks = hits.mutate(hit=ibis.literal(True))
    found = found.left_join(marks, ["search_id", "item_id"]).drop("search_id_right", "item_id_right")
    fate = ibis.cases(
        (found.shown.isnull(), "orphaned"),
        (found.time + ibis.interval(seconds=slack) < found.shown, "early"),
        (found.time > found.shown + ibis.interval(seconds=window), "late"),
        (found.hit.isnull(), "not_in_list"),
        (found.time < found.shown, "out_of_order"),
        else_="used",
    )
    return found.select("search_id", "item_id", "action", "time", "grade", "copies", fate=fate)


def count_fates(judged: Any) -> Any:
    """Actions by fate: `actions` different ones and `copies` beyond the first of each."""
    return judged.group_by("fate").aggregate(
        actions=judged.count(), copies=_total(judged.copies) - judged.count()
    )


# -- counting -------------------------------------------------------------------------------------------


def count_where(where: Any) -> Any:
    """How often a condition is true; 0 of nothing. An Ibis expression."""
    import ibis

    return where.ifelse(ibis.literal(1, "int8"), ibis.null("int8")).count()


def make_number(value: float) -> Any:
    """A float64 on every engine: Spark takes 1.0 for a decimal, which Ibis does not know."""
    import ibis

    return ibis.literal(repr(float(value))).cast("float64")


def _total(column: Any) -> Any:
    import ibis

    return ibis.coalesce(column.sum(), 0).cast("int64")
