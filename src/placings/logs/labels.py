"""Labels from actions: the grade of each action, the highest of an item, and click frequencies of a query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from placings.core import BadInput, UnknownName
from placings.logs.chains import lower_text, number_from_one
from placings.logs.join_expressions import USED, make_number

GRADES: Mapping[str, float] = {"click": 1.0, "cart": 2.0, "purchase": 3.0}
FREQUENCIES = ("rate", "share")


def check_grades(grades: Mapping[str, float] | None) -> dict[str, float]:
    """The map from action to grade, checked; None is click 1, cart 2, purchase 3.

    >>> check_grades({"click": 1, "share": 2})
    {'click': 1.0, 'share': 2.0}
    """
    given = GRADES if grades is None else grades
    if not isinstance(given, Mapping) or not given:
        raise BadInput(f"grades must map actions to numbers, such as {{'click': 1}}. Got {grades!r}.")
    for name, grade in given.items():
        number = isinstance(grade, int | float) and not isinstance(grade, bool)
        if not isinstance(name, str) or not number or not math.isfinite(grade) or grade < 0:
            raise BadInput(f"a grade must be finite and 0 or more. Got {name!r}: {grade!r}.")
    return {name: float(grade) for name, grade in given.items()}


def label_items(judged: Any) -> Any:
    """The label of each (search, item) that a used action refers to: the highest grade. An Ibis table."""
    used = judged.filter(judged.fate.isin(USED))
    return used.group_by("search_id", "item_id").aggregate(label=used.grade.max())


def unite_queries(rows: Any, context: Sequence[str], *, frequency: str = "rate") -> Any:
    """One group for each distinct folded query, its items united. An Ibis table.

    With g the sum of an item's grades under the query and n how often it was shown there, the label is
    ("rate") g/n, the mean grade of a showing, or ("share") g over the sum of g of all items of the query, 0
    where that is 0. `search_id` becomes the folded query; the columns in `context` are those of the query's
    latest search, an item's fields and score those of its latest showing; `position` numbers the items by
    their mean position, equal means by id; `impressions` is n, `clicks` the showings with a grade above 0.
    """
    import ibis

    if frequency not in FREQUENCIES:
        raise UnknownName("frequency", str(frequency), FREQUENCIES)
    rows = rows.mutate(placings_query=lower_text(rows["query"]))
    latest = [ibis.desc("time"), ibis.desc("search_id")]
    pairs = ibis.window(group_by=["placings_query", "item_id"])
    queries = ibis.window(group_by="placings_query")
    clicked = (rows.label > 0).ifelse(1, 0)
    marked = rows.mutate(
        placings_place=ibis.row_number().over(
            ibis.window(group_by=["placings_query", "item_id"], order_by=latest)
        ),
        impressions=rows.item_id.count().over(pairs),
        clicks=clicked.sum().over(pairs).cast("int64"),
        placings_gain=rows.label.sum().over(pairs),
        placings_mean=rows.position.sum().over(pairs) / rows.item_id.count().over(pairs),
        placings_total=rows.label.sum().over(queries),
    )
    if "successful" in rows.columns:
        won = rows.successful.ifelse(1, 0).max().over(queries)
        marked = marked.mutate(successful=won == 1)
    items = marked.filter(marked.placings_place == 0)
    gain = items.placings_gain
    share = (items.placings_total > 0).ifelse(gain / items.placings_total, make_number(0.0))
    order = ibis.window(group_by="placings_query", order_by=["placings_mean", "item_id"])
    items = items.mutate(
        label=gain / items.impressions if frequency == "rate" else share,
        position=number_from_one(order),
    )
    one = ibis.row_number().over(ibis.window(group_by="placings_query", order_by=[*latest, "item_id"]))
    names = [name for name in context if name != "search_id"]
    last = rows.mutate(placings_last=one)
    last = last.filter(last.placings_last == 0).select("placings_query", *names)
    kept = [name for name in items.columns if name not in names]
    united = items.select(*kept).inner_join(last, "placings_query")
    united = united.mutate(search_id=united.placings_query)
    parts = ("chain_id", "chain_step", "chain_last", "outcome")
    drop = [name for name in united.columns if name.startswith("placings_") or name in parts]
    return united.drop(*drop)
