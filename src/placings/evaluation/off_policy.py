"""What an order that nobody was shown would have earned, from a log of another one.

Each function gives one value for each unit (a list, a decision), whose mean is the estimate, so that the
caller can average over people and say how sure the mean is (`bound_mean`). A unit has a *logged*
probability, with which what was shown was chosen, and a *target* probability, with which the new policy
would have chosen the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Floats, Ints, as_offsets, as_vector, check_share, number_clusters

LEAST_CLUSTERS = 2  # below there is no interval
ADDED = 1.5  # clusters at the end of what is possible, added to those seen: see `bound_mean`


# -- one decision ------------------------------------------------------------------------------------------


def weigh_units(logged: ArrayLike, target: ArrayLike, *, clip: float | None = None) -> Floats:
    """How much each unit counts, `w = target / logged`, at most `clip`; all are `[units]`.

    `logged` must be above 0 and at most 1, `target` from 0 to 1. A clip makes the estimate too low where
    rewards are not negative, never too high.

    >>> weigh_units([0.5, 0.1, 0.2], [1.0, 1.0, 0.0], clip=5.0).tolist()
    [2.0, 5.0, 0.0]
    """
    given, wanted = as_vector(logged, "logged"), as_vector(target, "target")
    if given.shape != wanted.shape:
        raise BadInput(
            f"logged and target must be of one length. Got {len(given)} and {len(wanted)} probabilities."
        )
    if not ((given > 0.0) & (given <= 1.0)).all():
        raise BadInput(
            "logged must hold probabilities above 0 and at most 1. "
            f"Got {_find_wrong(given, ~((given > 0.0) & (given <= 1.0)))}."
        )
    if not ((wanted >= 0.0) & (wanted <= 1.0)).all():
        raise BadInput(
            "target must hold probabilities from 0 to 1. "
            f"Got {_find_wrong(wanted, ~((wanted >= 0.0) & (wanted <= 1.0)))}."
        )
    _check_clip(clip)
    weights: Floats = wanted / given
    return weights if clip is None else np.minimum(weights, clip)


def estimate_ips(
    rewards: ArrayLike, logged: ArrayLike, target: ArrayLike, *, clip: float | None = None
) -> Floats:
    """Inverse propensity scoring: `w · reward` of each unit `[units]`, with `w` of `weigh_units`.

    Its mean is unbiased where every choice of the target policy had a logged probability above 0. With `clip`
    it is clipped IPS. No unit gives no value.

    >>> estimate_ips([1.0, 0.0, 1.0], [0.5, 0.5, 0.25], [1.0, 0.0, 0.5]).tolist()  # 1/0.5, 0, 0.5/0.25
    [2.0, 0.0, 2.0]

    Horvitz and Thompson, A generalization of sampling without replacement, JASA 1952; Bottou and others,
    Counterfactual reasoning and learning systems, JMLR 2013 (clipping).
    """
    weights = weigh_units(logged, target, clip=clip)
    return weights * _as_rewards(rewards, len(weights))


def estimate_snips(
    rewards: ArrayLike, logged: ArrayLike, target: ArrayLike, *, clip: float | None = None
) -> Floats:
    """Self-normalised IPS: values `[units]` whose mean is `V = Σ w·reward / Σ w`.

    A unit's value is `V + w · (reward − V) / mean(w)`: the mean is V, and the spread is that of V (the delta
    method), so that an interval of the mean is one of the ratio. The bias falls with 1/n. Where all weights
    are 0 nothing is known and every value is NaN.

    >>> values = estimate_snips([1.0, 0.0, 1.0], [0.5, 0.5, 0.25], [1.0, 1.0, 0.5])
    >>> float(values.mean())  # (2 + 2) / (2 + 2 + 2)
    0.6666666666666666

    Swaminathan and Joachims, The self-normalized estimator for counterfactual learning, NeurIPS 2015.
    """
    weights = weigh_units(logged, target, clip=clip)
    given = _as_rewards(rewards, len(weights))
    total = float(weights.sum())
    if not total > 0.0:
        return np.full(len(weights), np.nan)
    value = float((weights * given).sum()) / total
    found: Floats = value + weights * (given - value) * (len(weights) / total)
    return found


def estimate_doubly_robust(
    rewards: ArrayLike,
    logged: ArrayLike,
    target: ArrayLike,
    predicted: ArrayLike,
    predicted_target: ArrayLike,
    *,
    clip: float | None = None,
) -> Floats:
    """Doubly robust: `m_target + w · (reward − m)` of each unit `[units]`.

    `predicted` is the reward that a model expects for what was shown, m, and `predicted_target` what it
    expects under the target policy. The mean is unbiased if the probabilities are right or the model is; the
    better the model, the smaller the spread. The model must not have seen the unit (cross-fitting).

    >>> estimate_doubly_robust([1.0, 0.0], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [0.6, 0.6]).tolist()
    [1.6, 0.6]

    Dudík, Langford and Li, Doubly robust policy evaluation and learning, ICML 2011.
    """
    weights = weigh_units(logged, target, clip=clip)
    given = _as_rewards(rewards, len(weights))
    expected = _as_rewards(predicted, len(weights), "predicted")
    aimed = _as_rewards(predicted_target, len(weights), "predicted_target")
    found: Floats = aimed + weights * (given - expected)
    return found


# -- lists -------------------------------------------------------------------------------------------------


def estimate_item_position(
    clicks: ArrayLike,
    stays: ArrayLike,
    shown_probability: ArrayLike,
    worth: ArrayLike,
    offsets: ArrayLike,
    *,
    clip: float | None = None,
) -> Floats:
    """The item-position estimate of each list `[lists]`: `Σ_i stays_i / q_i · click_i · worth_i`.

    `clicks` `[rows]` are 0 or 1, `stays` says whether the new order puts the item where it was shown, `q` is
    the probability with which it was shown there, and `worth` what a click at that place counts. Unbiased if
    a click hangs on the item and its place, not on what else is in the list, and if each item could have been
    shown where the new order puts it. An item that could not adds 0: the estimate is then too low, never too
    high. `clip` bounds 1/q. An empty list has 0.

    >>> estimate_item_position([1, 0], [True, False], [0.8, 0.8], [1.0, 1.0], [0, 2]).tolist()  # 1/0.8
    [1.25]

    Li, Abbasi-Yadkori, Kveton and others, Offline evaluation of ranking policies with click models, KDD 2018.
    """
    clicked = as_vector(clicks, "clicks")
    weights = weigh_units(shown_probability, np.asarray(stays, dtype=np.float64), clip=clip)
    worths = _as_rewards(worth, len(weights), "worth")
    given = _as_rewards(clicked, len(weights), "clicks")
    return sum_lists(weights * given * worths, offsets)


def estimate_position_based(
    clicks: ArrayLike,
    propensity: ArrayLike,
    new_propensity: ArrayLike,
    worth: ArrayLike,
    offsets: ArrayLike,
    *,
    mistakes: ArrayLike | None = None,
    new_mistakes: ArrayLike | None = None,
    clip: float | None = None,
) -> Floats:
    """The position-based estimate of each list `[lists]`: `Σ_i click_i / p_i · p'_i · worth_i`.

    `p` is the probability of a look at the place where the item was shown, `p'` at its new place, `worth`
    what a click at the new place counts; all are `[rows]`. It is right if clicks follow the position-based
    model with these propensities, and then for any new order: no exploration is needed. With `mistakes`, b,
    and `new_mistakes`, b', the model is affine (trust bias): `(click_i − b_i) / p_i · p'_i + b'_i` in place
    of the first three. `clip` bounds p'/p. An empty list has 0.

    >>> estimate_position_based([0, 1], [1.0, 0.5], [0.5, 1.0], [1.0, 1.0], [0, 2]).tolist()  # 1/0.5 · 1
    [2.0]

    Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017; Vardasbi,
    Oosterhuis and de Rijke, When inverse propensity scoring does not work, CIKM 2020 (affine).
    """
    weights = weigh_units(propensity, new_propensity, clip=clip)
    given = _as_rewards(clicks, len(weights), "clicks")
    worths = _as_rewards(worth, len(weights), "worth")
    if (mistakes is None) != (new_mistakes is None):
        raise BadInput("mistakes and new_mistakes must be given together. Got one of them.")
    if mistakes is None or new_mistakes is None:
        return sum_lists(weights * given * worths, offsets)
    wrong = _as_rewards(mistakes, len(weights), "mistakes")
    later = _as_rewards(new_mistakes, len(weights), "new_mistakes")
    return sum_lists(((given - wrong) * weights + later) * worths, offsets)


def sum_lists(values: Floats, offsets: ArrayLike) -> Floats:
    """The sum of each list's rows `[lists]`; 0 of an empty one.

    >>> sum_lists(np.array([1.0, 2.0, 4.0]), [0, 2, 2, 3]).tolist()
    [3.0, 0.0, 4.0]
    """
    borders = as_offsets(offsets, len(values))
    owner = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    return np.bincount(owner, weights=values, minlength=len(borders) - 1).astype(np.float64)


# -- how sure ----------------------------------------------------------------------------------------------


def measure_effective_size(weights: ArrayLike) -> float:
    """How many equally weighted units would be as certain: `(Σ w)² / Σ w²`; 0 of none, or of weights 0.

    >>> measure_effective_size([1.0, 1.0, 1.0]), measure_effective_size([10.0, 1.0, 1.0])  # 144/102
    (3.0, 1.411764705882353)

    Kish, Survey sampling, 1965.
    """
    given = as_vector(weights, "weights")
    squares = float((given * given).sum())
    return float(given.sum()) ** 2 / squares if squares > 0.0 else 0.0


@dataclass(frozen=True)
class MeanBounds:
    """A mean with its two-sided interval, both one-sided bounds of the same level, and what they rest on."""

    mean: float
    low: float
    high: float
    least: float
    most: float
    error: float
    units: int
    clusters: int


def bound_mean(
    values: ArrayLike, clusters: ArrayLike | None = None, *, level: float = 0.95, reach: float = 0.0
) -> MeanBounds:
    """The mean of values that may be very skewed, with bounds that hold from some tens of clusters on.

    Over C clusters with residuals `u_c = Σ_{i in c} (x_i − mean)`, each end is the farthest one of three:

    - the usual `mean ± t · s` with C − 1 degrees of freedom;
    - Hall's, which takes the skewness of u out by a cubic before it asks for t;
    - with `reach`, t's as if one and a half more clusters had been seen whose residual is −reach, for
      the lower end, or +reach, for the upper one.

    Weights such as 1/p make few large values, and a short log may hold none of them: its spread then says
    nothing, and the first alone is far too sure. `reach` is how much one click can change a unit's value.
    What it costs is gone in long logs. `low` and `high` are the ends of the two-sided interval, `least` and
    `most` one-sided bounds. NaN values are left out. From fewer than two clusters all bounds are NaN. Equal
    values have bounds of width 0, if `reach` is 0.

    >>> found = bound_mean([1.0, 0.0, 1.0, 0.0])  # without skewness it is that of `estimate_mean`
    >>> found.mean, round(found.high, 4), round(found.least, 4)  # 0.5 + 3.1824 · s; 0.5 − 2.3534 · s
    (0.5, 1.4187, -0.1794)

    Hall, On the removal of skewness by transformation, JRSS B 1992. Cameron and Miller, A practitioner's
    guide to cluster-robust inference, 2015. Agresti and Coull, Approximate is better than "exact" for
    interval estimation of binomial proportions, 1998 (added observations).
    """
    check_share("level", level)
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1:
        raise BadInput(f"values must be one number for each unit. Got shape {given.shape}.")
    if not 0.0 <= reach < math.inf:
        raise BadInput(f"reach must be a finite number of 0 or more. Got {reach!r}.")
    known = ~np.isnan(given)
    kept = given[known]
    codes = _number_known(clusters, known)
    count = int(codes.max()) + 1 if len(codes) else 0
    mean = float(kept.mean()) if len(kept) else math.nan
    if count < LEAST_CLUSTERS:
        return MeanBounds(mean, math.nan, math.nan, math.nan, math.nan, math.nan, len(kept), count)
    scale = count / len(kept)  # a residual's sum as a change of the mean, times C
    away = np.bincount(codes, weights=kept - mean, minlength=count).astype(np.float64) * scale
    spread = float(np.sqrt((away * away).sum() / (count - 1)))
    if spread <= 1e-13 * max(float(np.abs(kept).max()), 1e-300):
        spread, away = 0.0, np.zeros(count)
    ends = [_bound(mean, away, spread, reach * scale, quantile) for quantile in ((1.0 + level) / 2.0, level)]
    return MeanBounds(mean, *ends[0], *ends[1], spread / math.sqrt(count), len(kept), count)


def _bound(mean: float, away: Floats, spread: float, reach: float, quantile: float) -> tuple[float, float]:
    """The farthest ends of the three intervals."""
    from scipy.special import stdtrit

    count = len(away)
    t = float(stdtrit(count - 1, quantile))
    down = up = t * spread / math.sqrt(count)
    if spread > 0.0:
        skewness = float((away**3).mean() / float((away * away).mean()) ** 1.5)
        down = max(down, spread * _unskew(t / math.sqrt(count), skewness, count))
        up = max(up, -spread * _unskew(-t / math.sqrt(count), skewness, count))
    if reach > 0.0:
        all_in = count + ADDED
        shift = ADDED * reach / all_in
        squares = float((away * away).sum()) + ADDED * reach * reach - all_in * shift * shift
        farther = shift + t * math.sqrt(squares / (all_in - 1.0) / all_in)
        down, up = max(down, farther), max(up, farther)
    return mean - down, mean + up


def _unskew(y: float, skewness: float, count: int) -> float:
    """The x with `x + γx²/3 + γ²x³/27 + γ/6C = y`: the inverse of Hall's transformation."""
    if abs(skewness) < 1e-8:
        return y
    inside = 1.0 + skewness * (y - skewness / (6.0 * count))
    return 3.0 / skewness * (math.copysign(abs(inside) ** (1.0 / 3.0), inside) - 1.0)


# -- checks ------------------------------------------------------------------------------------------------


def _number_known(clusters: ArrayLike | None, known: np.ndarray) -> Ints:
    if clusters is None:
        return np.arange(int(known.sum()))
    given = np.asarray(clusters)
    if given.shape != known.shape:
        raise BadInput(
            f"clusters must be one id for each of the {len(known)} units. Got shape {given.shape}."
        )
    return number_clusters(given[known])


def _as_rewards(values: ArrayLike, count: int, name: str = "rewards") -> Floats:
    given = as_vector(values, name)
    if len(given) != count:
        raise BadInput(f"{name} must be one number for each of the {count} units. Got {len(given)}.")
    if not np.isfinite(given).all():
        raise BadInput(f"{name} must hold finite numbers. Got {_find_wrong(given, ~np.isfinite(given))}.")
    return given


def _check_clip(clip: float | None) -> None:
    if clip is not None and not (isinstance(clip, int | float) and clip > 0.0):
        raise BadInput(f"clip must be a number above 0, or None. Got {clip!r}.")


def _find_wrong(values: Floats, wrong: np.ndarray) -> str:
    place = int(np.flatnonzero(wrong)[0])
    return f"{values[place]:g} in place {place + 1}"
