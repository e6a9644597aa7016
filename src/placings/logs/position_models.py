"""Rank and features together explain the clicks: curves without randomisation, and what they are worth.

Both models are fitted by maximum likelihood with a little shrinkage. What tells a rank's effect from the
relevance of what usually stands there is the features alone: where they miss part of the relevance that the
engine knows, the curve is too steep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from placings.core import BadInput, Bools, Floats, Ints
from placings.logs.showings import sum_by

BLOCK = 100_000  # rows whose derivatives are held at once
SHRINK_FEATURES, SHRINK_RANKS = 1.0, 0.01  # penalties on squared, standardised coefficients
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class PositionFit:
    """log(p_k/p_1) `[ranks]` and its covariance, by clusters."""

    logs: Floats
    covariance: Floats
    clusters: int


def fit_position_model(
    matrix: Floats,
    place: Ints,
    clicked: Bools,
    cluster: Ints,
    kind: Literal["em", "two-tower"],
) -> PositionFit:
    """The curve of a position model with these features.

    `matrix` is `[rows, features]`, `place` the number of the row's rank from 0, `clicked` and `cluster`
    `[rows]`. With x the standardised features (missing is the mean) and σ the logistic function:

    - "em": `P(click) = σ(a_k) · σ(x·w + b)`, the likelihood that regression-EM climbs; here it is maximised
      by its gradient, since EM takes hundreds of rounds. `p_k/p_1 = σ(a_k)/σ(a_1)`.
    - "two-tower": `P(click) = σ(a_k + x·w)`. Ranks and features add up as logits, so the ratio of two ranks
      differs from item to item: it is that of the mean over all rows,
      `p_k/p_1 = Σ σ(a_k + x·w) / Σ σ(a_1 + x·w)`.

    Wang, Golbandi, Bendersky, Metzler, Najork: Position bias estimation for unbiased learning to rank in
    personal search, WSDM 2018. Guo and others: PAL, RecSys 2019 (towers).
    """
    from scipy.optimize import minimize

    x = _standardise(matrix)
    ranks = int(place.max(initial=-1)) + 1
    model = _MODELS[kind](x, place, clicked.astype(np.float64), ranks)
    usual = np.log((clicked.mean() + TINY) / (1.0 - clicked.mean() + TINY))
    start = np.zeros(ranks + model.x.shape[1])
    if kind == "em":
        start[ranks] = usual
    else:
        start[:ranks] = usual
    found = minimize(model.lose, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "maxfun": 600})
    information, pushes = model.spread(found.x, cluster)
    logs, turn = model.read_curve(found.x)
    inverse = np.linalg.pinv(information, hermitian=True)
    count = len(pushes)
    influence = pushes @ inverse @ turn.T
    return PositionFit(logs, count / max(count - 1, 1) * (influence.T @ influence), count)


def _standardise(matrix: Floats) -> Floats:
    """The features with mean 0 and deviation 1, missing at 0, and a column of ones before them."""
    x = np.array(matrix, dtype=np.float64)
    x[~np.isfinite(x)] = np.nan
    known = ~np.isnan(x)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0) / count
    away = np.where(known, x - mean, 0.0)
    deviation = np.sqrt((away * away).sum(axis=0) / count)
    usable = deviation > 1e-9 * np.maximum(np.abs(mean), 1.0)
    if not usable.any():
        raise BadInput("the features must differ between rows. Got constants only.")
    return np.column_stack([np.ones(len(x)), away[:, usable] / deviation[usable]])


class _Product:
    """`P = σ(a_k) · σ(x·w)`; parameters are a `[ranks]`, then w."""

    def __init__(self, x: Floats, place: Ints, clicked: Floats, ranks: int) -> None:
        self.x, self.place, self.clicked, self.ranks = x, place, clicked, ranks
        self.pull = np.concatenate([np.full(ranks, SHRINK_RANKS), [SHRINK_RANKS]])
        self.pull = np.concatenate([self.pull, np.full(x.shape[1] - 1, SHRINK_FEATURES)])

    def lose(self, beta: Floats) -> tuple[float, Floats]:
        """Minus the penalised log-likelihood, and its gradient."""
        look, want = self._split(beta)
        p = np.clip(look * want, TINY, 1.0 - TINY)
        value = -float((self.clicked * np.log(p) + (1.0 - self.clicked) * np.log1p(-p)).sum())
        off = (self.clicked - p) / (p * (1.0 - p))
        ranks = sum_by(self.place, off * p * (1.0 - look), self.ranks)
        features = self.x.T @ (off * p * (1.0 - want))
        return self._pull(value, beta, np.concatenate([ranks, features]))

    def _pull(self, value: float, beta: Floats, rise: Floats) -> tuple[float, Floats]:
        return value + 0.5 * float(self.pull @ beta**2), self.pull * beta - rise

    def _split(self, beta: Floats) -> tuple[Floats, Floats]:
        return _squash(beta[: self.ranks])[self.place], _squash(self.x @ beta[self.ranks :])

    def slopes(self, beta: Floats, rows: slice) -> tuple[Floats, Floats, Floats]:
        """P `[rows]`, its derivatives by the row's rank `[rows]` and by features `[rows, features]`."""
        look = _squash(beta[: self.ranks])[self.place[rows]]
        want = _squash(self.x[rows] @ beta[self.ranks :])
        p = np.clip(look * want, TINY, 1.0 - TINY)
        return p, p * (1.0 - look), (p * (1.0 - want))[:, None] * self.x[rows]

    def spread(self, beta: Floats, cluster: Ints) -> tuple[Floats, Floats]:
        """The Fisher information with the penalty, and each cluster's score `[clusters, parameters]`."""
        size, count = len(beta), int(cluster.max(initial=-1)) + 1
        information, pushes = np.diag(self.pull), np.zeros((count, size))
        for start in range(0, len(self.place), BLOCK):
            rows = slice(start, start + BLOCK)
            p, by_rank, by_feature = self.slopes(beta, rows)
            turned = np.zeros((len(p), size))
            turned[np.arange(len(p)), self.place[rows]] = by_rank
            turned[:, self.ranks :] = by_feature
            information += (turned / (p * (1.0 - p))[:, None]).T @ turned
            off = (self.clicked[rows] - p) / (p * (1.0 - p))
            for column in range(size):
                pushes[:, column] += sum_by(cluster[rows], off * turned[:, column], count)
        return information, pushes

    def read_curve(self, beta: Floats) -> tuple[Floats, Floats]:
        """log(p_k/p_1) `[ranks]` and its derivatives `[ranks, parameters]`."""
        a = beta[: self.ranks]
        logs = -np.log1p(np.exp(-a))
        turn = np.zeros((self.ranks, len(beta)))
        turn[:, : self.ranks] = np.diag(1.0 - _squash(a))
        return logs - logs[0], turn - turn[0]


class _Sum(_Product):
    """`P = σ(a_k + x·w)`, without the column of ones, since each rank has its own constant."""

    def __init__(self, x: Floats, place: Ints, clicked: Floats, ranks: int) -> None:
        super().__init__(x[:, 1:], place, clicked, ranks)
        self.pull[ranks:] = SHRINK_FEATURES

    def lose(self, beta: Floats) -> tuple[float, Floats]:
        """Minus the penalised log-likelihood, and its gradient."""
        logit = beta[: self.ranks][self.place] + self.x @ beta[self.ranks :]
        value = float((np.logaddexp(0.0, logit) - self.clicked * logit).sum())
        off = self.clicked - _squash(logit)
        rise = np.concatenate([sum_by(self.place, off, self.ranks), self.x.T @ off])
        return self._pull(value, beta, rise)

    def slopes(self, beta: Floats, rows: slice) -> tuple[Floats, Floats, Floats]:
        """P `[rows]` and its derivatives by the row's rank and by the features."""
        p = _squash(beta[: self.ranks][self.place[rows]] + self.x[rows] @ beta[self.ranks :])
        p = np.clip(p, TINY, 1.0 - TINY)
        bend = p * (1.0 - p)
        return p, bend, bend[:, None] * self.x[rows]

    def read_curve(self, beta: Floats) -> tuple[Floats, Floats]:
        """log(p_k/p_1) of the means over all rows, and its derivatives."""
        logs, turn = np.zeros(self.ranks), np.zeros((self.ranks, len(beta)))
        worth = self.x @ beta[self.ranks :]
        for rank in range(self.ranks):
            p = _squash(beta[rank] + worth)
            bend = p * (1.0 - p)
            logs[rank] = np.log(p.mean())
            turn[rank, rank] = bend.mean() / p.mean()
            turn[rank, self.ranks :] = (self.x.T @ bend) / len(p) / p.mean()
        return logs - logs[0], turn - turn[0]


_MODELS: dict[str, Any] = {"em": _Product, "two-tower": _Sum}


def _squash(values: Floats) -> Floats:
    found: Floats = 1.0 / (1.0 + np.exp(-np.clip(values, -500.0, 500.0)))
    return found
