"""How RankingData presents itself: a few lines at the prompt, a small table in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from placings.data.ranking import RankingData


def describe_facts(data: RankingData) -> dict[str, str]:
    """What a reader wants to know first, as label → text."""
    sizes = data.sizes
    facts = {
        "rows": f"{data.n_rows:,}",
        "queries": f"{data.n_queries:,}",
        "features": f"{data.n_features:,} ({'sparse' if data.is_sparse else 'dense'})",
    }
    if data.n_queries:
        facts["rows a query"] = (
            f"{int(sizes.min()):,} to {int(sizes.max()):,}, mean {sizes.mean():,.1f}, "
            f"median {np.median(sizes):,g}"
        )
        facts["labels"] = describe_labels(data)
        facts["nothing relevant"] = f"{count_empty(data):,} of {data.n_queries:,} queries"
    known = [name for name in ("items", "position", "weight", "propensity", "time") if has(data, name)]
    if known or data.segments:
        facts["also known"] = ", ".join([*known, *(f"segment {name!r}" for name in data.segments)])
    return facts


def describe_labels(data: RankingData) -> str:
    """Shares of each grade, or the range when grades are fractions."""
    grades, counts = np.unique(data.y, return_counts=True)
    if len(grades) > 12:
        return f"{grades[0]:g} to {grades[-1]:g}, {len(grades):,} distinct, mean {data.y.mean():.4g}"
    shares = counts / max(1, data.n_rows)
    return ", ".join(f"{grade:g}: {share:.1%}" for grade, share in zip(grades, shares, strict=True))


def count_empty(data: RankingData) -> int:
    """Queries with nothing relevant."""
    relevant = np.bincount(data.query_index, weights=data.y > 0, minlength=data.n_queries)
    return int((relevant == 0).sum())


def has(data: RankingData, column: str) -> bool:
    return getattr(data, column) is not None


def describe_text(data: RankingData) -> str:
    """The `repr`: aligned lines."""
    facts = describe_facts(data)
    width = max(map(len, facts))
    return "\n".join(["RankingData", *(f"  {name:<{width}}  {text}" for name, text in facts.items())])


def describe_html(data: RankingData) -> str:
    """The notebook's view: a table without scripts or styles from elsewhere."""
    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>"
        for name, text in describe_facts(data).items()
    )
    return f"<table><caption>RankingData</caption>{rows}</table>"
