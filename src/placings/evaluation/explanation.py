"""`explain`: why one item stands above another, feature by feature, adding up to the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import (
    BadInput,
    Cell,
    Grid,
    format_difference,
    format_number,
    render_grid,
    write_json,
)
from placings.data import RankingData, align_features

SHOWN = 10


@dataclass(frozen=True)
class Term:
    """One feature's part in the difference of two scores, and its value in both rows (NaN: missing)."""

    feature: str
    contribution: float
    value_above: float
    value_below: float


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why `above` stands above `below` in query `qid`, or that it does not.

    `terms`, largest first by absolute value, add up to `difference` (in the precision of the library's
    numbers: about 1e-6 of the largest term for XGBoost, less elsewhere). Ranks count from 1 among the
    `items` rows of the query, ties by row order.
    """

    qid: Any
    above: Any
    below: Any
    score_above: float
    score_below: float
    rank_above: int
    rank_below: int
    items: int
    terms: tuple[Term, ...]

    @property
    def difference(self) -> float:
        """Score of `above` minus score of `below`."""
        return self.score_above - self.score_below

    @property
    def holds(self) -> bool:
        """Whether `above` is in fact ranked above `below`."""
        return self.rank_above < self.rank_below

    @property
    def sentence(self) -> str:
        """What is the case, in words."""
        where = f"Query {self.qid!r}: {self.above!r} (rank {self.rank_above} of {self.items})"
        other = f"{self.below!r} (rank {self.rank_below})"
        if self.difference == 0.0:
            return f"{where} and {other} have equal scores; their order is that of their rows."
        if not self.holds:
            return f"{where} is NOT above {other}: its score is lower by {-self.difference:.4f}."
        return f"{where} is above {other}: its score is higher by {self.difference:.4f}."

    def table(self, format: str = "text", *, top: int | None = SHOWN) -> str:
        """The first `top` terms (None: all), what the others add up to, and the sum, in any format."""
        shown = self.terms[:top]
        rows = [
            (
                Cell(term.feature),
                Cell(format_difference(term.contribution)),
                Cell(_format_value(term.value_above)),
                Cell(_format_value(term.value_below)),
            )
            for term in shown
        ]
        rest = self.terms[len(shown) :]
        if rest:
            others = format_difference(sum(term.contribution for term in rest))
            rows.append((Cell(f"{len(rest)} others"), Cell(others), Cell(""), Cell("")))
        rows.append((Cell("difference"), Cell(format_difference(self.difference)), Cell(""), Cell("")))
        header = ("feature", "contribution", f"in {self.above!r}", f"in {self.below!r}")
        return render_grid(Grid(header, tuple(rows), (self.sentence,)), format)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; a missing feature value is NaN."""
        return {
            "qid": self.qid,
            "above": {"item": self.above, "score": self.score_above, "rank": self.rank_above},
            "below": {"item": self.below, "score": self.score_below, "rank": self.rank_below},
            "items": self.items,
            "holds": self.holds,
            "difference": self.difference,
            "sentence": self.sentence,
            "terms": [
                {
                    "feature": term.feature,
                    "contribution": term.contribution,
                    "above": term.value_above,
                    "below": term.value_below,
                }
                for term in self.terms
            ],
        }

    def to_json(self) -> str:
        """`to_dict` in full precision; NaN is null."""
        return write_json(self.to_dict())

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return self.table("html")


def explain(ranker: Any, data: RankingData, qid: Any, above: Any, below: Any) -> Explanation:
    """Why `above` stands above `below` in the query `qid`: per feature, adding up to the score difference.

    `above` and `below` are item ids, or the rows' places in the query (from 0) if the data have no ids. The
    ranker must have `contributions` (trees: SHAP values; linear: weight × value); the contribution of
    a feature to the difference is the one's minus the other's. If `above` is in fact below, the result says
    so (`holds`, `sentence`) and its terms add up to a negative number.

    >>> from placings.rankers.lgbm import LightGBMRanker
    >>> X, y = [[i % 7, i % 2] for i in range(70)], [i % 7 > 4 for i in range(70)]
    >>> data = RankingData.from_arrays(X, y, qid=[0] * 70)
    >>> found = explain(LightGBMRanker(rounds=5).fit(data), data, 0, 6, 1)
    >>> found.holds, found.terms[0].feature, found.terms[0].value_above
    (True, 'f1', 6.0)
    """
    if not hasattr(ranker, "contributions"):
        raise BadInput(
            f"explain needs a ranker that splits its scores into contributions, as trees and linear rankers "
            f"do. {type(ranker).__name__} does not."
        )
    qid, above, below = (
        each.item() if isinstance(each, np.generic) else each for each in (qid, above, below)
    )
    query = align_features(data.query(qid), ranker.feature_names_)
    rows = [_find_row(query, item) for item in (above, below)]
    if rows[0] == rows[1]:
        raise BadInput(f"above and below must be two items. Got {above!r} twice.")
    scores = np.asarray(ranker.predict(query), dtype=np.float64)
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    pair = query.X[rows]
    # a transform may scale the rows of a list together: then two of them are not the list
    whole = getattr(ranker, "looks_at_list", False)
    parts = _make_dense(ranker.contributions(query)[rows] if whole else ranker.contributions(pair))
    values = _make_dense(pair)
    differences = parts[0, :-1] - parts[1, :-1]
    order = np.argsort(-np.abs(differences), kind="stable")
    terms = tuple(
        Term(query.feature_names[i], float(differences[i]), float(values[0, i]), float(values[1, i]))
        for i in order
    )
    (a, b), total = rows, float(scores[rows[0]] - scores[rows[1]])
    gap = abs(float(differences.sum()) - total)
    if gap > 1e-3 * max(1.0, float(np.abs(parts).max())):
        raise BadInput(
            f"the contributions of {type(ranker).__name__} add up to {differences.sum():.6g}, but the scores "
            f"differ by {total:.6g}. They explain another ranker."
        )
    return Explanation(
        qid, above, below, float(scores[a]), float(scores[b]), int(rank[a]), int(rank[b]), len(scores), terms
    )


def _find_row(query: RankingData, item: Any) -> int:
    """The row of an item in a query's own data."""
    if query.items is None:
        if isinstance(item, bool) or not isinstance(item, int | np.integer):
            raise BadInput(
                f"the data have no item ids, so above and below are places in the query, from 0. "
                f"Got {item!r}."
            )
        if not 0 <= item < query.n_rows:
            raise BadInput(f"the query's rows have places 0 to {query.n_rows - 1}. Got {item}.")
        return int(item)
    ids = query.items.tolist()
    places = [place for place, each in enumerate(ids) if each == item]
    if not places:
        known = ", ".join(map(repr, ids[:5])) + (", …" if len(ids) > 5 else "")
        raise BadInput(f"no item {item!r} in query {query.qids[0]!r}; its {len(ids)} items are {known}.")
    if len(places) > 1:
        raise BadInput(
            f"item {item!r} stands {len(places)} times in query {query.qids[0]!r}. Use data without ids "
            "(data.replace(items=None)) and the places of the rows."
        )
    return places[0]


def _make_dense(values: Any) -> Any:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64)


def _format_value(value: float) -> str:
    return "missing" if np.isnan(value) else format_number(value, 6)
