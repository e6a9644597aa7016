"""Labels that rest on clicks, and on a model of relevance where clicks are clipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Floats
from placings.data import RankingData, check_length, check_seed, check_weight
from placings.rankers.click_weights import CLIP, check_clip


def doubly_robust_labels(
    clicks: ArrayLike,
    propensity: ArrayLike,
    relevance: ArrayLike,
    *,
    exposure: ArrayLike | None = None,
    clip: float | None = CLIP,
) -> Floats:
    """An estimate of each row's relevance from its click, its propensity and a model's guess.

    `r̂ + w · (c − p·r̂)` with `w = min(1/e, clip)`: the guess, corrected by how far the click was from what the
    guess and the position let expect. Its expectation is the relevance if nothing is clipped and the
    propensities are right, or if the guess is right.

    `clicks` c (above 0: clicked), `propensity` p in (0, 1] and `relevance` r̂ in [0, 1] are `[rows]`.
    `exposure` e in (0, 1] is the mean propensity of the row's item over the positions at which it could
    have been shown; by default p itself. Then the label is `w·c + (1 − w·p)·r̂`, never negative: c/p where
    nothing is clipped, so the guess only fills in what clipping cuts away. With an exposure of its own a
    label may be negative.

    For losses that are linear in the labels: ridge and softmax. A label above 1 is an estimate, no grade:
    with losses of pairs or gains it would mean something else.

    >>> doubly_robust_labels([1, 0, 1, 0], [0.5, 0.5, 0.05, 0.05], [0.3, 0.3, 0.3, 0.3], clip=10.0)
    array([ 2.  ,  0.  , 10.15,  0.15])

    Oosterhuis, Doubly-robust estimation for correcting position-bias in click feedback for unbiased learning
    to rank, TOIS 2023.
    """
    check_clip(clip)
    clicked = np.asarray(clicks, dtype=np.float64)
    if clicked.ndim != 1:
        raise BadInput(f"clicks must be one-dimensional, one value a row. Got shape {clicked.shape}.")
    seen = _check_share(propensity, "propensity", len(clicked))
    guess = np.asarray(relevance, dtype=np.float64)
    if guess.shape != clicked.shape or not ((guess >= 0.0) & (guess <= 1.0)).all():
        raise BadInput(
            f"relevance must be a probability, from 0 to 1, for each of the {len(clicked)} rows. Got "
            f"{_name_wrong(guess, clicked)}."
        )
    mean = seen if exposure is None else _check_share(exposure, "exposure", len(clicked))
    weight = 1.0 / mean if clip is None else np.minimum(1.0 / mean, clip)
    rest = 1.0 - weight * seen
    if exposure is None and clip is None:
        rest = np.zeros_like(rest)  # 1 − (1/p)·p, which rounds to a little more or less
    return np.asarray(weight * (clicked > 0.0) + rest * guess)


def estimate_relevance(
    data: RankingData, regressor: Any = None, *, folds: int = 5, random_state: int = 0
) -> Floats:
    """Each row's probability of a click if it is looked at, by a model that has not seen the row's query.

    Queries are shared out over `folds`. For each, `regressor` is fitted on the others' rows, with target
    `c/p`, which has no bias, and weight p, for the fewer look the noisier it is. Predictions are cut to [0,
    1].

    `data` must have a propensity; a label above 0 is a click. `regressor` is any of scikit-learn that takes
    `sample_weight`; by default boosted trees that know NaN. Sparse features are made dense.

    >>> from placings.simulate.rankings import make_ranking
    >>> data = make_ranking(20, n_features=5, random_state=0).data
    >>> found = estimate_relevance(data.replace(propensity=np.ones(data.n_rows)))
    >>> found.shape == (data.n_rows,), bool(((found >= 0) & (found <= 1)).all())
    (True, True)
    """
    if data.propensity is None:
        raise BadInput("data must have a propensity for each row. Got none. See estimate_propensity.")
    whole = isinstance(folds, int | np.integer) and not isinstance(folds, bool)
    if not whole or not 2 <= folds <= data.n_queries:
        raise BadInput(
            f"folds must be a whole number from 2 to the number of queries, {data.n_queries}. Got {folds!r}."
        )
    check_seed(random_state)
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingRegressor

    if regressor is None:
        regressor = HistGradientBoostingRegressor(max_iter=60, random_state=0)
    X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    target = (data.y > 0.0) / data.propensity
    shuffled = np.random.default_rng(random_state).permutation(data.n_queries)
    fold = np.empty(data.n_queries, dtype=np.int64)
    fold[shuffled] = np.arange(data.n_queries) % folds
    of_row = np.repeat(fold, data.sizes)
    found = np.zeros(data.n_rows)
    for place in range(folds):
        held = of_row == place
        if not held.any():
            continue
        model = clone(regressor).fit(X[~held], target[~held], sample_weight=data.propensity[~held])
        found[held] = model.predict(X[held])
    return np.clip(found, 0.0, 1.0)


def _check_share(values: ArrayLike, name: str, rows: int) -> Floats:
    checked = check_weight(values, "propensity")
    if checked is None:
        raise BadInput(f"{name} must have one value for each row. Got None.")
    check_length(checked, rows, name)
    return np.asarray(checked, dtype=np.float64)


def _name_wrong(guess: Floats, like: Floats) -> str:
    if guess.shape != like.shape:
        return f"shape {guess.shape}"
    row = int(np.flatnonzero(~((guess >= 0.0) & (guess <= 1.0)))[0])
    return f"{guess[row]} at row {row}"
