"""Weights of a blend: chosen on lists that no member learned from, and drawn towards equal ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placings.core import Floats

PICKS = 12  # members are added so often, one at a time, each time the one that helps most
DRAWS = 8  # samples of the lists that weights are chosen on; their mean is taken
PRIOR = 100.0  # lists that the prior weights are worth

Judge = Callable[[Floats], Floats]  # scores [rows] → one value a list, NaN where it has none


def choose_weights(scores: Floats, judge: Judge, *, seed: int) -> Floats:
    """Weights `[members]` that add up to 1, of members whose scores `[members, rows]` have one scale.

    Members are added one at a time, with replacement, each time the one that raises the mean of `judge`
    most; it is done on samples of the lists, and the weights are averaged. With few lists that fits chance,
    so the weights are drawn towards a prior by 100 / (100 + lists). There members that cannot be told from
    the best have equal weights, and one that lies behind it by z standard errors of the difference weighs
    exp(−z).

    >>> labels, offsets = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 2, 4])
    >>> from placings.metrics import mrr
    >>> scores = np.array([[2.0, 1.0, 2.0, 1.0], [1.0, 2.0, 1.0, 2.0]])
    >>> choose_weights(scores, lambda blend: mrr(blend, labels, offsets), seed=0).round(6).tolist()
    [1.0, 0.0]

    Caruana, Niculescu-Mizil, Crew and Ksikes: Ensemble selection from libraries of models, ICML 2004.
    """
    members = len(scores)
    if members == 1:
        return np.ones(1)
    rng = np.random.default_rng(seed)
    kept: dict[tuple[int, ...], Floats] = {}

    def value(counts: tuple[int, ...]) -> Floats:
        """The value of each list under a blend; the same blends come up in many samples."""
        if counts not in kept:
            weights = np.array(counts, dtype=np.float64) / sum(counts)
            kept[counts] = judge(weights @ scores)
        return kept[counts]

    alone = np.stack([value(tuple(map(int, row))) for row in np.eye(members)])  # [members, lists]
    lists = alone.shape[1]
    total = np.zeros(members)
    for draw in range(DRAWS):
        often = np.ones(lists) if draw == 0 else rng.multinomial(lists, np.full(lists, 1.0 / lists))
        total += _pick(members, value, often.astype(np.float64))
    pull = PRIOR / (PRIOR + lists)
    weights = (1.0 - pull) * total / DRAWS + pull * _weigh_alike(alone)
    weights[weights < 0.5 / (DRAWS * members)] = 0.0  # hardly there, but it would have to be served
    found: Floats = weights / weights.sum()
    return found


def _weigh_alike(values: Floats) -> Floats:
    """exp(−z) for members `[members, lists]` that are z standard errors behind the best; they add up to 1."""
    best = values[int(np.argmax([_mean(row) for row in values]))]
    found = []
    for row in values:
        behind = (best - row)[~np.isnan(best - row)]
        error = float(behind.std(ddof=1) / np.sqrt(len(behind))) if len(behind) > 1 else 0.0
        lag = max(0.0, _mean(behind))
        found.append(np.exp(-lag / error) if error > 0.0 else float(lag == 0.0))
    weights: Floats = np.array(found) / np.sum(found)
    return weights


def _pick(members: int, value: Callable[[tuple[int, ...]], Floats], often: Floats) -> Floats:
    """How often each member is picked; the best prefix of the picks, where more would lower the mean."""
    counts = [0] * members
    best, best_counts = -np.inf, np.ones(members)
    for _ in range(PICKS):
        found = []
        for member in range(members):
            counts[member] += 1
            found.append(_mean(value(tuple(counts)), often))
            counts[member] -= 1
        winner = int(np.argmax(found))
        counts[winner] += 1
        if found[winner] > best + 1e-12:
            best, best_counts = found[winner], np.array(counts, dtype=np.float64)
    shares: Floats = best_counts / best_counts.sum()
    return shares


def _mean(values: Floats, often: Floats | None = None) -> float:
    """The weighted mean over lists that have a value; 0 if none has."""
    there = ~np.isnan(values)
    counts = np.ones(len(values)) if often is None else often
    weight = float(counts[there].sum())
    return float((values[there] * counts[there]).sum() / weight) if weight > 0.0 else 0.0
