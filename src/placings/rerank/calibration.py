"""Scores to judge a ranker by, on lists that had no say in when its training stopped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placings.core import Bools, Floats, Ints
from placings.data import RankingData, find_clusters
from placings.rankers import LinearRanker, MeanRanker, OriginalOrder, Ranker

LARGE = 6000  # held-out lists, from which on a third of them is enough to stop by: 4,000 are left to judge


def learn_apart(
    learn: Callable[[RankingData], Ranker], held: RankingData, *, heeds: bool, random_state: int = 0
) -> tuple[Ranker, Floats]:
    """A ranker, and scores of the held-out rows `[rows]` by rankers that had not been stopped by their lists.

    `learn(valid)` gives a fitted ranker that was stopped by these lists. NaN stands where a list stopped the
    only ranker there is. With `heeds=False`, where no held-out list changes what is learned (`heeds_valid`),
    all of them judge. Otherwise people (or sessions, or searches) are dealt out at random:

    - from 6,000 lists on, a third stops the training and the others judge: one fit;
    - of fewer, each half judges the ranker that the other half stopped: two fits, twice the time. The first
      one is kept; the second, which saw the same training lists, stands for it on the half that stopped it.

    Where all held-out lists are of one person there is nothing to deal out, and all scores are NaN.
    """
    if not heeds:
        ranker = learn(held)
        return ranker, np.asarray(ranker.predict(held), dtype=np.float64)
    stops = _deal_out(held, random_state)
    scores = np.full(held.n_rows, np.nan)
    if stops.all():
        return learn(held), scores
    first = _fit_half(learn, held, stops, scores)
    if held.n_queries < LARGE:
        _fit_half(learn, held, ~stops, scores)
    return first, scores


def _fit_half(
    learn: Callable[[RankingData], Ranker], held: RankingData, stops: Bools, scores: Floats
) -> Ranker:
    """A ranker that these lists stopped; its scores of the others are written into `scores`."""
    ranker = learn(held[np.flatnonzero(stops)])
    judged = np.repeat(~stops, np.diff(held.offsets))
    scores[judged] = ranker.predict(held[np.flatnonzero(~stops)])
    return ranker


def _deal_out(held: RankingData, random_state: int) -> Bools:
    """The lists that stop the training `[lists]`, whole clusters together; all of them if there is one."""
    found = find_clusters(held)
    codes: Ints = np.arange(held.n_queries) if found is None else found.codes
    count = int(codes.max(initial=-1)) + 1
    if count < 2:
        return np.ones(held.n_queries, dtype=np.bool_)
    share = 3 if held.n_queries >= LARGE else 2
    order = np.random.default_rng(random_state).permutation(count)
    return np.asarray(order < max(1, count // share), dtype=np.bool_)[codes]


def heeds_valid(ranker: Ranker) -> bool:
    """Whether the lists given as `valid` change what a ranker learns."""
    if isinstance(ranker, MeanRanker):
        return any(heeds_valid(member) for member in ranker._make_members().values())
    if isinstance(ranker, LinearRanker | OriginalOrder):
        return False
    return ranker.get_params(deep=False).get("early_stopping", True) is not None
