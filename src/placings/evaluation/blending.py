"""Weights of a blend: chosen on lists that no member learned from, and drawn towards equal ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placings.core import Floats, Ints

PICKS = 12  # members are added so often, one at a time, each time the one that helps most
DRAWS = 8  # samples of the lists that weights are chosen on; their mean is taken
PRIOR = 400.0  # queries that the equal weights are worth

Judge = Callable[[Floats, Floats, Ints], Floats]


def choose_weights(scores: Floats, labels: Floats, offsets: Ints, judge: Judge, *, seed: int) -> Floats:
    """Weights `[members]` that add up to 1, of members whose scores `[members, rows]` have one scale.

    Members are added one at a time, with replacement, each time the one that raises the mean of `judge`
    (one value a list) most; it is done on samples of the lists, and the weights are averaged. Those that have
    any weight are then drawn towards equal weights: with Q lists by 400 / (400 + Q).

    >>> labels, offsets = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 2, 4])
    >>> from placings.metrics import mrr
    >>> scores = np.array([[2.0, 1.0, 2.0, 1.0], [1.0, 2.0, 1.0, 2.0]])
    >>> choose_weights(scores, labels, offsets, mrr, seed=0).tolist()
    [1.0, 0.0]

    Caruana, Niculescu-Mizil, Crew and Ksikes: Ensemble selection from libraries of models, ICML 2004.
    """
    members = len(scores)
    if members == 1:
        return np.ones(1)
    rng = np.random.default_rng(seed)
    lists = len(offsets) - 1
    kept: dict[tuple[int, ...], Floats] = {}

    def value(counts: tuple[int, ...]) -> Floats:
        """The value of each list under a blend; the same blends come up in many samples."""
        if counts not in kept:
            weights = np.array(counts, dtype=np.float64) / sum(counts)
            kept[counts] = judge(weights @ scores, labels, offsets)
        return kept[counts]

    total = np.zeros(members)
    for draw in range(DRAWS):
        often = np.ones(lists) if draw == 0 else rng.multinomial(lists, np.full(lists, 1.0 / lists))
        total += _pick(members, value, often.astype(np.float64))
    chosen = total / total.sum()
    chosen[chosen < 0.5 / (DRAWS * members)] = 0.0  # picked by one sample and hardly there
    there = chosen > 0.0
    equal = there / there.sum()
    pull = PRIOR / (PRIOR + lists)
    weights: Floats = (1.0 - pull) * chosen / chosen.sum() + pull * equal
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
    return best_counts / best_counts.sum()


def _mean(values: Floats, often: Floats) -> float:
    """The weighted mean over lists that have a value; 0 if none has."""
    there = ~np.isnan(values)
    weight = float(often[there].sum())
    return float((values[there] * often[there]).sum() / weight) if weight > 0.0 else 0.0
