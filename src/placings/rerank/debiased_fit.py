"""Learning from clicks whose position had a part in them: weights by propensity, never below plain clicks.

A click needs a look, and a look depends on the position: `propensity` is the probability of a look, relative
to the first position. A label that was carried back from a later click of the session needs no look at its
own list, so it is counted otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Bools, Floats, find_quantile
from placings.data import RankingData
from placings.logs import PROPENSITY, PropensityCurve
from placings.metrics import dcg
from placings.rankers import Ranker

if TYPE_CHECKING:
    import pandas as pd

SHOWN_POSITION, CARRIED = "shown_position", "carried"
GROUPS = (1, 2, 3, 5, 10, 20)  # the last position of each group but the last, which has no end
LEAST = 20  # clicks a group of positions has at least; groups with fewer are joined with the one above
CLIP = 10.0  # as in `weigh_clicks`: no click stands for more than this many
DEPTH = 10  # ranks that the two models are compared on
SURE = 1.645  # standard errors: the one-sided test at 5 %
WORTH = 300.0  # clicks of equal weight that weighed clicks must be worth, see `draw_to_plain`
WEIGHTED, NAIVE = "weighted", "naive"


@runtime_checkable
class Propensities(Protocol):
    """What knows the probability of a look at each position: a `PropensityCurve`, or anything like it."""

    def at(self, positions: ArrayLike) -> Floats:
        """The probability of a look at these positions (from 1) over that at the first, `[positions]`."""
        ...

    def to_state(self) -> Mapping[str, Any]:
        """Plain values for JSON."""
        ...


PropensitySource: TypeAlias = Propensities | Literal["log"]


def check_source(propensity: Any) -> None:
    """Refuse what is no source of propensities, before anything is read."""
    if propensity is None or isinstance(propensity, Propensities):
        return
    if not (isinstance(propensity, str) and propensity == "log"):
        raise BadInput(
            'propensity must be None, a curve from pg.estimate_propensity, or "log" for the column '
            f"propensity of the log. Got {propensity!r}."
        )


def find_looks(rows: pd.DataFrame, source: PropensitySource) -> Floats:
    """The probability of a look at each row `[rows]`, in (0, 1].

    A curve is asked where people saw the item: `shown_position` where a service showed its own order, else
    `position`; an estimated curve is steadied first (`steady_curve`). "log" takes the rows' column
    `propensity` as it is.
    """
    if isinstance(source, str):
        if PROPENSITY not in rows:
            raise BadInput(
                'propensity="log" needs a column propensity. Got none. Add one with '
                "pg.estimate_propensity(log).add_to(log), or pass the curve itself."
            )
        looks = rows[PROPENSITY].to_numpy(dtype=np.float64)
    else:
        name = SHOWN_POSITION if SHOWN_POSITION in rows else "position"
        seen = rows[name].to_numpy(dtype=np.float64)
        if np.isnan(seen).any():
            raise BadInput(
                f"propensities need to know where people saw an item. Got {int(np.isnan(seen).sum()):,} of "
                f"{len(seen):,} rows without {name}."
            )
        curve = steady_curve(source) if isinstance(source, PropensityCurve) else source
        looks = np.asarray(curve.at(seen.astype(np.int64)), dtype=np.float64)
    wrong = ~((looks > 0.0) & (looks <= 1.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadInput(
            f"a propensity must be above 0 and at most 1. Got {looks[row]:g} in row {row}, "
            f"and {int(wrong.sum()):,} such rows."
        )
    return looks


def steady_curve(curve: PropensityCurve) -> PropensityCurve:
    """The curve to learn with: ranks are drawn towards 1 as far as they are uncertain, then `let_fall`.

    With s the standard error of log p_k, which the interval tells, `log p_k` becomes `log p_k / (1 + s²)`:
    the mean of what is likely after the log, if before it log p_k was 0 with a deviation of 1. A short log
    may say 0.01 of a rank that is looked at ten times as often, and each click there would then stand for a
    hundred; drawn towards 1, what is not known is learned from as plain clicks are. Of a long log nothing
    changes. A rank without an interval keeps its value.

    >>> given = {"ranks": [1, 2], "values": [1.0, 0.1], "low": [1.0, 0.1 / 7.1], "high": [1.0, 0.1 * 7.1]}
    >>> more = {"method": "swaps", "rests_on": "randomisation", "says": "", "searches": 9, "clicks": 5}
    >>> steady_curve(PropensityCurve.from_state(given | more)).values.round(3).tolist()  # s = 1: √0.1
    [1.0, 0.316]

    Morris, Parametric empirical Bayes inference, JASA 1983.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        error = (np.log(curve.high) - np.log(curve.low)) / 2.0 / find_quantile(curve.level)
    error = np.where(np.isfinite(error), error, 0.0)
    drawn = curve.values ** (1.0 / (1.0 + np.square(error)))
    return let_fall(replace(curve, values=drawn))


def let_fall(curve: PropensityCurve) -> PropensityCurve:
    """The curve that never rises and is nearest to this one, on the scale of logarithms.

    People who read from the top look at no rank more often than at the one above it. Far down, where clicks
    are few, an estimate may say so all the same: that is noise, and one over it would weigh the noise. Ranks
    count by one over their squared standard error, which the interval tells. Barlow and others, Statistical
    inference under order restrictions, 1972.

    >>> given = {"ranks": [1, 2, 3], "values": [1.0, 0.2, 0.8]}
    >>> given |= {"low": [1.0, 0.1, 0.4], "high": [1.0, 0.4, 1.6]}
    >>> more = {"method": "swaps", "rests_on": "randomisation", "says": "", "searches": 9, "clicks": 5}
    >>> let_fall(PropensityCurve.from_state(given | more)).values.round(3).tolist()  # √(0.2 · 0.8)
    [1.0, 0.4, 0.4]
    """
    from sklearn.isotonic import isotonic_regression

    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (np.log(curve.high) - np.log(curve.low)) / 2.0
    known = np.isfinite(spread) & (spread > 0.0)
    largest = float(spread[known].max()) if known.any() else 1.0
    spread = np.where(known, spread, largest)
    spread[0] = 1e-3 * float(spread.min())  # rank 1 is 1
    logs = isotonic_regression(np.log(curve.values), sample_weight=spread**-2.0, increasing=False)
    return replace(curve, values=np.minimum(np.exp(logs), 1.0))


def weigh_carried(looks: Floats, position: Floats, label: Floats, carried: Bools) -> Floats:
    """The propensity of each row's label `[rows]`: of a click, or of one that was carried back.

    Of the wanted items at position r a share `a·p_r` is clicked. Others are labelled all the same, because
    the session clicked them later in another list. With n_r clicks and m_r carried labels there, a wanted
    item is labelled with probability `a·p_r · (n_r + m_r)/n_r`, whatever a is and however people go on. So

        propensity_r = p_r · (n_r + m_r)/n_r,

    divided by the largest of all rows, counted in groups of positions (1, 2, 3, 4–5, 6–10, 11–20, further)
    that have 20 clicks or more. Carried labels make up for clicks that position cost, most of all far down;
    without this, both together would count twice there. Without carried labels it is `looks`.

    >>> looks, position = np.array([1.0, 0.5] * 40), np.array([1, 2] * 40)
    >>> carried = np.array([False] * 40 + [False, True] * 20)  # at 2: 20 clicks, 20 carried
    >>> weigh_carried(looks, position, np.ones(80), carried)[:2].tolist()
    [1.0, 1.0]
    """
    given = label > 0
    if not (carried & given).any():
        return looks
    group = np.searchsorted(GROUPS, position)
    clicks = np.bincount(group[given & ~carried], minlength=len(GROUPS) + 1).astype(np.float64)
    others = np.bincount(group[given & carried], minlength=len(GROUPS) + 1).astype(np.float64)
    for place in range(len(GROUPS), 0, -1):  # from the end, so that thin groups join the one above
        if clicks[place] < LEAST:
            clicks[place - 1] += clicks[place]
            others[place - 1] += others[place]
            clicks[place] = others[place] = np.nan
    share = (clicks + others) / np.maximum(clicks, 1.0)
    for place in range(1, len(share)):
        if np.isnan(share[place]):
            share[place] = share[place - 1]
    found = looks * share[group]
    return np.asarray(found / found.max())


def draw_to_plain(propensity: Floats, label: Floats, worth: float = WORTH) -> tuple[Floats, float]:
    """Propensities drawn to 1 as far as the clicks are too few to be weighed by them, and their power.

    Weights w leave n clicks worth `(Σ w)² / Σ w²` clicks of equal weight: of 100 clicks that weigh up to 10
    perhaps 40, from which less is learned than from the 100 as they are. So the weights are `min(1/p, 10)^a`
    with the largest power a from 0 to 1 that leaves the clicks worth `worth`. With fewer clicks than that a
    is 0, which is plain clicks; of a long log a is 1, and its propensities are returned as they are.

    >>> label = np.ones(400)
    >>> few, power = draw_to_plain(np.tile([1.0, 0.1], 200), label)  # weights 1 and 10: worth 240 of 400
    >>> round(power, 3), round(float((1 / few).sum() ** 2 / (1 / few**2).sum()))
    (0.572, 300)
    >>> draw_to_plain(np.full(100, 0.1), np.ones(100))[1], draw_to_plain(np.full(300, 0.1), np.ones(300))[1]
    (0.0, 1.0)

    Kong, A note on importance sampling using standardized weights, 1992 (what weighed draws are worth).
    """
    logs = np.log(np.minimum(1.0 / propensity[label > 0.0], CLIP))

    def count(power: float) -> float:
        weights = np.exp(power * logs)
        return float(weights.sum() ** 2 / np.square(weights).sum())

    if len(logs) < worth:
        return np.ones_like(propensity), 0.0
    if count(1.0) >= worth:
        return propensity, 1.0
    low, high = 0.0, 1.0  # what weights are worth falls as the power rises
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if count(middle) >= worth else (low, middle)
    return np.maximum(propensity, 1.0 / CLIP) ** low, low


def find_propensities(rows: pd.DataFrame, source: PropensitySource | None, carried: Bools) -> Floats | None:
    """The propensity of each row's label `[rows]`: `weigh_carried` of `find_looks`; None without a source."""
    if source is None:
        return None
    name = SHOWN_POSITION if SHOWN_POSITION in rows else "position"
    position, label = (rows[each].to_numpy(dtype=np.float64) for each in (name, "label"))
    return weigh_carried(find_looks(rows, source), position, label, carried)


@dataclass(frozen=True, eq=False)
class DebiasedFit:
    """Two models, the one of them that is taken, and why: `facts` are plain values that a bundle keeps."""

    ranker: Ranker
    weighted: Ranker
    naive: Ranker
    facts: dict[str, Any] = field(default_factory=dict)


def learn_debiased(
    make: Callable[[bool], Ranker],
    train: RankingData,
    valid: RankingData,
    *,
    naive: Ranker | None = None,
) -> DebiasedFit:
    """Learn from clicks weighed by their propensity, unless plain clicks are shown to give the better model.

    `make(True)` gives a ranker for weighed clicks, `make(False)` one for plain ones; `train` and `valid` must
    have a propensity. Both are fitted, unless `naive` is one of plain clicks already. Where the clicks of
    `train` are few its propensities are drawn to 1 (`draw_to_plain`); where they become 1 plain clicks are
    taken, and there is one fit. Else the weighed one is taken, unless it is shown to be worse on the
    validation lists: with `d` the difference of `Σ_clicks min(1/p, 10) / log2(1 + rank)` over the first ten
    ranks, list by list, and lists of one session taken together, if `mean(d) + 1.645 · se(d) < 0`. That is a
    test of models, not of propensities: where these are wrong, so is the test. Lists without a click say
    nothing. `facts` has the verdict, the difference with its standard error, and what the weights did.

    Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017.
    """
    for name, data in (("train", train), ("valid", valid)):
        if data.propensity is None:
            raise BadInput(
                f"{name} must have a propensity for each row. Got none. See pg.estimate_propensity."
            )
    assert train.propensity is not None
    drawn, power = draw_to_plain(np.asarray(train.propensity, dtype=np.float64), train.y, WORTH)
    if naive is None:
        naive = make(False).fit(train.replace(propensity=None), valid=valid)
    if power == 0.0:
        clicks = int((train.y > 0.0).sum())
        told = {"power": 0.0, "least_clicks": WORTH, "clicks": clicks, "effective_clicks": float(clicks)}
        return DebiasedFit(naive, naive, naive, {"chosen": NAIVE, **told})
    weighted = make(True).fit(train if power == 1.0 else train.replace(propensity=drawn), valid=valid)
    mean, error, lists = _compare(weighted.predict(valid), naive.predict(valid), valid)
    worse = lists > 1 and mean + SURE * error < 0.0
    facts = {
        "chosen": NAIVE if worse else WEIGHTED, "difference": mean, "standard_error": error, "lists": lists,
        "metric": f"dcg@{DEPTH}:ips", "power": power, **weighted.training_.get("propensity", {}),
    }  # fmt: skip
    return DebiasedFit(naive if worse else weighted, weighted, naive, facts)


def _compare(weighted: Floats, naive: Floats, valid: RankingData) -> tuple[float, float, int]:
    """The mean difference of clicks over propensities, its standard error, and over how many lists."""
    assert valid.propensity is not None
    worth = np.where(valid.y > 0.0, np.minimum(1.0 / valid.propensity, CLIP), 0.0)
    values = [dcg(scores, worth, valid.offsets, k=DEPTH, gain="linear") for scores in (weighted, naive)]
    away = values[0] - values[1]
    known = ~np.isnan(away)
    away, lists = away[known], int(known.sum())
    if not lists:
        return 0.0, 0.0, 0
    mean = float(away.mean())
    sessions = valid.segments.get("session_id")
    units = np.arange(lists) if sessions is None else sessions[valid.offsets[:-1]][known]
    codes = np.unique(units, return_inverse=True)[1]
    parts = np.bincount(codes, away - mean)
    error = float(np.sqrt(np.square(parts).sum() * len(parts) / max(len(parts) - 1, 1))) / lists
    return mean, error, lists


def describe_source(source: PropensitySource) -> dict[str, Any]:
    """Where propensities came from, as a bundle keeps it."""
    if isinstance(source, str):
        return {"source": source}
    known = {name: getattr(source, name, None) for name in ("method", "rests_on")}
    return {"source": "curve", **{name: value for name, value in known.items() if isinstance(value, str)}}
