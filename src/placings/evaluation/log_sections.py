"""Sections: what grouping a list by type does to what is shown, seen and clicked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from placings.arrays import AnyArray
from placings.evaluation.log_facts import name_groups, need_pandas, order_groups, take_share

if TYPE_CHECKING:
    import pandas as pd


def weigh_sections(rows: pd.DataFrame, by: str = "type", *, most: int = 8) -> tuple[pd.DataFrame, float]:
    """What each type is shown and clicked, over the whole list and within its own section; §6.2.2.

    Columns: group, shown, clicked, shown_share, clicked_share, rate (clicked/shown), lift (the one share over
    the other), lists (searches that show it), first (share of these in which it stands at the very top),
    mrr (of its clicked items, by position), mrr_within (by place among the items of its type),
    top_first and top_later: how often the first item of the section is clicked where the section stands at
    the top of the list and where another one does. A difference between the last two is what presentation
    bias looks like, though better items on top look the same. The second value is the share of lists with
    two types or more in which each type's items stand together; NaN without such a list.
    """
    pandas = need_pandas()
    codes = pandas.factorize(rows["search_id"], sort=False)[0]
    order = np.lexsort((rows["position"].to_numpy(), codes))
    codes = codes[order]
    groups = name_groups(rows[by], most)[order]
    position = rows["position"].to_numpy(dtype=np.float64)[order]
    hit = (rows["label"] > 0).to_numpy()[order]
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, np.int64)
    kinds = pandas.factorize(groups)[0]
    frame = pandas.DataFrame({"search": codes, "kind": kinds, "hit": hit})
    within = frame.groupby(["search", "kind"]).cumcount().to_numpy() + 1
    on_top = kinds == kinds[starts][codes] if len(codes) else np.zeros(0, bool)
    found = []
    for name in order_groups(groups):
        own = groups == name
        top = own & (within == 1)
        chosen = own & hit
        found.append(
            {
                "group": name, "shown": int(own.sum()), "clicked": int(chosen.sum()),
                "shown_share": float(own.mean()), "clicked_share": take_share(chosen.sum(), hit.sum()),
                "rate": float(hit[own].mean()), "lists": int(top.sum()),
                "first": float(on_top[top].mean()),
                "mrr": _mean(1.0 / position[chosen]), "mrr_within": _mean(1.0 / within[chosen]),
                "top_first": _mean(hit[top & on_top]), "top_later": _mean(hit[top & ~on_top]),
            }
        )  # fmt: skip
    table = pandas.DataFrame(found)
    if len(table):
        table["lift"] = table["clicked_share"] / table["shown_share"]
    return table, _find_grouped(codes, kinds)


def _find_grouped(codes: AnyArray, kinds: AnyArray) -> float:
    """The share of lists with two kinds or more in which a kind never comes back."""
    if not len(codes):
        return math.nan
    pairs = np.unique(np.stack([codes, kinds], axis=1), axis=0)[:, 0]
    distinct = np.bincount(pairs)
    same = codes[1:] == codes[:-1]
    changes = np.bincount(codes[1:][same & (kinds[1:] != kinds[:-1])], minlength=len(distinct))
    mixed = distinct >= 2
    return _mean((changes == distinct - 1)[mixed])


def _mean(values: AnyArray) -> float:
    return float(np.mean(values)) if len(values) else math.nan
