"""What a re-ranker knows of each person's own clicks: learned from logs, given to a request's items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, need_library
from placings.logs import (
    ITEM_ID,
    LABEL,
    OPT_OUT,
    OWN,
    OwnClicks,
    add_own_clicks,
    find_opted_out,
    is_one_of,
)

if TYPE_CHECKING:
    import pandas as pd

PERSON = "person"  # the segment that says whether a list is of somebody who was seen before
NEEDED = ("user_id", "time")


def learn_histories(
    known: pd.DataFrame, later: pd.DataFrame, *, half_life: float, served: str
) -> tuple[pd.DataFrame, pd.DataFrame, OwnClicks]:
    """Two whole logs with `own_clicks` as of each session's begin, and the clicks of both for later.

    The history of either is that of the first, as it is with past clicks. Logs with a column `served` are a
    service's, whose values stay.
    """
    for name in NEEDED:
        for table in (known, later):
            if name not in table:
                raise BadInput(
                    f"history=True needs a column {name}: whose clicks they are, and when. Got "
                    f"{', '.join(map(str, table.columns))}."
                )
    pandas = need_library("pandas", "a re-ranker")
    out = find_opted_out(known, later)  # in one of them: out of both
    tables = [each.assign(**{OPT_OUT: is_one_of(each["user_id"], out)}) for each in (known, later)]
    keep = served in known and served in later and OWN in known and OWN in later
    names = [*NEEDED, ITEM_ID, LABEL, OPT_OUT]
    parts = [each[names] for each in tables]
    if keep:
        parts = [
            part.assign(**{OWN: each[OWN].astype(np.float64)})
            for part, each in zip(parts, tables, strict=True)
        ]
    kept = OwnClicks.learn(pandas.concat(parts, ignore_index=True), half_life=half_life, keep=keep)
    first, second = (
        add_own_clicks(each, tables[0], half_life=half_life, keep=served in each) for each in tables
    )
    return first, second, kept


def give_own_clicks(
    own: OwnClicks | None, context: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """A request's items with `own_clicks`: what an item says itself, else what is known of the person.

    The person is the context's `user_id`; one whose `no_history` is true has none, as one who is not known.
    """
    if own is None or all(OWN in item for item in items):
        return items
    time = context.get("time")
    found = own.look_up(
        context.get("user_id"),
        [str(item.get(ITEM_ID)) for item in items],
        time if time is not None and time == time else None,
        no_history=context.get(OPT_OUT),
    )
    return [
        item if OWN in item else {OWN: count, **item}
        for item, count in zip(items, found.tolist(), strict=True)
    ]
