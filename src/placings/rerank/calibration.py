"""Scores to judge a ranker by, on lists that it neither learned from nor was stopped by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placings.core import Bools, Floats, Ints
from placings.data import RankingData, find_clusters
from placings.rankers import LinearRanker, MeanRanker, OriginalOrder, Ranker

LARGE = 40_000  # held-out lists, from which on two thirds of them are enough to judge by
FOLDS = 3

Learn = Callable[[RankingData, RankingData], Ranker]


def learn_apart(
    learn: Learn, train: RankingData, held: RankingData, *, heeds: bool, random_state: int = 0
) -> tuple[Ranker, Floats]:
    """A ranker, and scores of all rows, those of `train` before those of `held`, by rankers that did not know
    their lists. NaN stands where there is none.

    `learn(train, held)` gives a ranker that learned from the first and was stopped by the second. With
    `heeds=False` no held-out list changes what is learned (`heeds_valid`), so all of them judge. People (or
    sessions, or lists) are dealt out at random, all lists of one together:

    - of fewer than 40,000 held-out lists, `train` is dealt into three parts. Each part is scored by a ranker
      that learned from the other two and was stopped by `held`, and `held` by one that learned from two parts
      and was stopped by the third: four fits beside that of the ranker itself, and every list judges. They
      saw less than it did, so what they gain stands for less than it gains;
    - of 40,000 or more, a third stops the training and the others judge: one fit.

    Where all lists are of one person there is nothing to deal out, and their scores are NaN.
    """
    scores = np.full(train.n_rows + held.n_rows, np.nan)
    if held.n_queries >= LARGE:
        judges = _deal_out(held, 3, random_state) > 0 if heeds else np.ones(held.n_queries, dtype=np.bool_)
        stops = held[np.flatnonzero(~judges)] if heeds and judges.any() else held
        ranker = learn(train, stops)
        _score_lists(ranker, held, judges, scores[train.n_rows :])
        return ranker, scores
    ranker = learn(train, held)
    parts = _deal_out(train, FOLDS, random_state)
    several = len(np.unique(parts)) > 1
    for part in range(FOLDS) if several else ():
        inside = parts == part
        if inside.any():
            _score_lists(learn(train[np.flatnonzero(~inside)], held), train, inside, scores[: train.n_rows])
    if not heeds:
        scores[train.n_rows :] = ranker.predict(held)
    elif several:
        first = parts == 0
        stranger = learn(train[np.flatnonzero(~first)], train[np.flatnonzero(first)])
        scores[train.n_rows :] = stranger.predict(held)
    return ranker, scores


def _score_lists(ranker: Ranker, data: RankingData, lists: Bools, scores: Floats) -> None:
    """Write a ranker's scores of these lists into `scores`, `[rows of data]`."""
    if lists.any():
        scores[np.repeat(lists, np.diff(data.offsets))] = ranker.predict(data[np.flatnonzero(lists)])


def _deal_out(data: RankingData, parts: int, random_state: int) -> Ints:
    """The part of each list, `[lists]` from 0, parts about equal in people; 0 where all are of one."""
    found = find_clusters(data)
    codes: Ints = np.arange(data.n_queries) if found is None else found.codes
    count = int(codes.max(initial=-1)) + 1
    order = np.random.default_rng(random_state).permutation(count)
    return np.asarray(order % parts)[codes]


def heeds_valid(ranker: Ranker) -> bool:
    """Whether the lists given as `valid` change what a ranker learns."""
    if isinstance(ranker, MeanRanker):
        return any(heeds_valid(member) for member in ranker._make_members().values())
    if isinstance(ranker, LinearRanker | OriginalOrder):
        return False
    return ranker.get_params(deep=False).get("early_stopping", True) is not None
