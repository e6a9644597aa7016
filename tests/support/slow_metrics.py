"""Every metric once more, slow and obvious: what the property and the contract tests compare with.

A new metric adds one line to `SLOW`: its value for one list with something relevant in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Row = tuple[float, float]  # score, label


@dataclass(frozen=True)
class SlowList:
    """One list in rank order, cut at `k`."""

    rows: list[Row]
    k: int | None

    @property
    def labels(self) -> list[float]:
        """All labels, as ranked."""
        return [label for _, label in self.rows]

    @property
    def top(self) -> list[float]:
        """The labels down to rank `k`."""
        return self.labels[: self.k]

    @property
    def relevant(self) -> list[bool]:
        """Which rows are relevant, as ranked."""
        return [label > 0 for label in self.labels]

    @property
    def first(self) -> int | None:
        """The rank of the first relevant row, None when it stands below `k`."""
        return next((rank for rank, found in enumerate(self.relevant[: self.k], 1) if found), None)


def slow_dcg(labels: list[float]) -> float:
    """DCG of labels as ranked."""
    return sum((2**label - 1) / math.log2(1 + rank) for rank, label in enumerate(labels, 1))


def slow_err(labels: list[float]) -> float:
    """ERR of labels as ranked, 4 being the highest grade."""
    total, going = 0.0, 1.0
    for rank, label in enumerate(labels, 1):
        stop = (2**label - 1) / 2**4
        total += going * stop / rank
        going *= 1 - stop
    return total


def slow_average_precision(asked: SlowList) -> float:
    """The precision at each relevant rank, over all relevant rows."""
    relevant, ranks = asked.relevant, range(1, len(asked.top) + 1)
    return sum(sum(relevant[:rank]) / rank for rank in ranks if relevant[rank - 1]) / sum(relevant)


def slow_arp(labels: list[float]) -> float:
    """The mean rank, weighted by labels."""
    weighed = sum(label * rank for rank, label in enumerate(labels, 1))
    return weighed / sum(labels) if sum(labels) else math.nan


def slow_tau(pairs: list[Row], variant: str = "b") -> float | None:
    """Kendall's tau over all pairs of rows; None when no pair differs in both."""
    agree = differ = tied_score = tied_label = 0
    for i, (score_i, label_i) in enumerate(pairs):
        for score_j, label_j in pairs[:i]:
            product = (score_i - score_j) * (label_i - label_j)
            agree, differ = agree + (product > 0), differ + (product < 0)
            tied_score, tied_label = tied_score + (score_i == score_j), tied_label + (label_i == label_j)
    if agree + differ == 0:
        return None
    if variant == "joachims":
        return (agree - differ) / (agree + differ)
    every = len(pairs) * (len(pairs) - 1) / 2
    return (agree - differ) / math.sqrt((every - tied_score) * (every - tied_label))


SLOW: dict[str, Callable[[SlowList], float | None]] = {
    "ndcg": lambda asked: slow_dcg(asked.top) / slow_dcg(sorted(asked.labels, reverse=True)[: asked.k]),
    "dcg": lambda asked: slow_dcg(asked.top),
    "err": lambda asked: slow_err(asked.top),
    "mrr": lambda asked: 1 / asked.first if asked.first else 0.0,
    "map": slow_average_precision,
    "p": lambda asked: sum(asked.relevant[: asked.k]) / (asked.k or len(asked.rows)),
    "recall": lambda asked: sum(asked.relevant[: asked.k]) / sum(asked.relevant),
    "hit": lambda asked: float(asked.first is not None),
    "arp": lambda asked: slow_arp(asked.top),
    "tau": lambda asked: slow_tau(asked.rows[: asked.k]),
    "rank": lambda asked: asked.first or math.nan,
}
OF_PAIRS = {"tau"}  # has a value where nothing is relevant, and none where no pair differs in score


def sort_rows(rows: list[Row], ties: str) -> list[Row]:
    """Rows as ranked: Python's sort is stable."""
    key = {"stable": lambda row: -row[0], "worst": lambda row: (-row[0], row[1])}[ties]
    return sorted(rows, key=key)


def slow_value(name: str, rows: list[Row], k: int | None, ties: str = "stable") -> float | None:
    """One metric of one list in plain Python; None when there is nothing to find."""
    if name not in OF_PAIRS and not any(label > 0 for _, label in rows):
        return None
    return SLOW[name](SlowList(sort_rows(rows, ties), k))


# -- clicks over propensities --------------------------------------------------------------------------------

SeenRow = tuple[float, float, float]  # score, label, propensity

SLOW_DEBIASED: dict[str, Callable[[float, int], float]] = {  # what a click of this weight adds at this rank
    "dcg:ips": lambda weight, rank: weight / math.log2(1 + rank),
    "clicks:ips": lambda weight, rank: weight,
    "mrr:ips": lambda weight, rank: weight / rank,
}


def slow_debiased(
    name: str, rows: list[SeenRow], k: int | None, ties: str = "stable", clip: float | None = 100.0
) -> float:
    """One debiased metric of one list in plain Python: a sum over its clicks."""
    worth = [
        (score, 0.0 if label == 0 else 1 / propensity if clip is None else min(1 / propensity, clip))
        for score, label, propensity in rows
    ]
    ranked = sort_rows(worth, ties)[:k]
    return sum(SLOW_DEBIASED[name](weight, rank) for rank, (_, weight) in enumerate(ranked, 1))
