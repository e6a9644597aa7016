"""Clicks that trust the engine: a rank's click rate as a straight line in relevance, estimated from pairs.

With trust bias an item of relevance g at rank k is clicked with `α_k · g + β_k`: β_k are clicks on what
merely stands there. No log tells g from a·g + b, so relevance is measured as the click rate at rank 1:
α_1 = 1, β_1 = 0. Then `(c − β_k) / α_k` is, on average, the click that the item would have had at rank 1, and
an order by it is the order by relevance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placings.core import Floats, Ints, draw_counts, percentile_interval
from placings.logs.harvesting import Comparisons
from placings.logs.showings import Showings, sum_by

DRAWS = 300
DEEPEST = 20  # ranks of a chain
LEAST_SLOPE = 3.0  # standard errors by which clicks must rise with popularity at both ranks of a pair


@dataclass(frozen=True, eq=False)
class AffineTrust:
    """`P(click at rank k) = alpha_k · g + beta_k`, g being the click rate at rank 1; all are `[ranks]`."""

    ranks: Ints
    alpha: Floats
    beta: Floats
    alpha_low: Floats
    alpha_high: Floats
    beta_low: Floats
    beta_high: Floats
    refused: tuple[int, ...]


def fit_trust(
    comparisons: Comparisons, shown: Showings, rates: Floats, *, level: float, random_state: int
) -> AffineTrust:
    """α and β of the ranks that a chain of neighbours ties to rank 1.

    For neighbours k and k + 1 both sides of a comparison hold the same items, with weights. On each side
    clicks are regressed on `rates`, how popular the item is with other people, which is noisy but knows
    nothing of these clicks: `E[c | z] = m + s·(z − z̄)`. The noise of z flattens both slopes by the same
    factor, so `α_{k+1}/α_k = s_{k+1}/s_k` and `β_{k+1} = m_{k+1} − s_{k+1}/s_k · (m_k − β_k)`. The chain ends
    where one of the slopes is less than three standard errors above 0: there the items do not differ enough
    to tell trust from relevance. Intervals are of clusters drawn with replacement.

    Agarwal, Wang, Li, Bendersky, Najork: Addressing trust bias for unbiased learning-to-rank, WWW 2019.
    Vardasbi, Oosterhuis, de Rijke: When inverse propensity scoring does not work, CIKM 2020.
    """
    sums, ranks = _gather_sums(comparisons, shown, rates)
    whole = sums.sum(axis=0)
    draws = np.concatenate(
        [counts @ sums.reshape(len(sums), -1) for counts in draw_counts(len(sums), DRAWS, random_state)]
    ).reshape(DRAWS, *whole.shape)
    slopes, _ = _regress(whole[None], whole)
    drawn_slopes, _ = _regress(draws, whole)
    with np.errstate(invalid="ignore", divide="ignore"):
        clear = slopes[0] / drawn_slopes.std(axis=0)  # [pairs, 2]
    good = (clear > LEAST_SLOPE).all(axis=1)
    depth = int(np.argmin(good)) if not good.all() else len(good)  # pairs before the first that fails
    alpha, beta = _chain(whole[None, :depth], whole[:depth])
    alphas, betas = _chain(draws[:, :depth], whole[:depth])
    kept = np.arange(1, depth + 2)
    alpha_ends, beta_ends = percentile_interval(alphas, level), percentile_interval(betas, level)
    refused = tuple(int(rank) for rank in np.setdiff1d(ranks, kept))
    return AffineTrust(kept, alpha[0], beta[0], *alpha_ends, *beta_ends, refused)


def _gather_sums(comparisons: Comparisons, shown: Showings, rates: Floats) -> tuple[Floats, Ints]:
    """Sums of each cluster `[clusters, pairs, 2, 5]`: of w, w·z, w·z², w·c and w·z·c, upper side first."""
    last = min(int(shown.rank.max(initial=1)), DEEPEST)
    upper = np.minimum(comparisons.here, comparisons.there)
    near = (np.abs(comparisons.here - comparisons.there) == 1) & (upper < last)
    side = (comparisons.here > comparisons.there).astype(np.int64)
    votes = np.flatnonzero(near[comparisons.cell])
    row, weight = comparisons.row[votes], comparisons.weight[votes]
    column = (upper[comparisons.cell[votes]] - 1) * 2 + side[comparisons.cell[votes]]
    clusters, line = np.unique(shown.cluster[row], return_inverse=True)
    z, c = rates[row], shown.clicked[row].astype(np.float64)
    pairs = max(last - 1, 0)
    parts = [
        sum_by(line * 2 * pairs + column, values, len(clusters) * 2 * pairs)
        for values in (weight, weight * z, weight * z * z, weight * c, weight * z * c)
    ]
    sums = np.stack(parts, axis=1).reshape(len(clusters), pairs, 2, 5)
    return sums, np.unique(shown.rank)


def _regress(sums: Floats, whole: Floats) -> tuple[Floats, Floats]:
    """Slopes and heights at a common z̄ `[draws, pairs, 2]`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = (whole[:, :, 1].sum(axis=1) / whole[:, :, 0].sum(axis=1))[None, :, None]
        w, z, zz, c, zc = np.moveaxis(sums, -1, 0)
        slope = (zc / w - z / w * c / w) / (zz / w - (z / w) ** 2)
        height = c / w + slope * (middle - z / w)
    return slope, height


def _chain(sums: Floats, whole: Floats) -> tuple[Floats, Floats]:
    """α and β `[draws, ranks]` along the chain of neighbours."""
    slope, height = _regress(sums, whole)
    alpha = np.ones((len(sums), whole.shape[0] + 1))
    beta = np.zeros_like(alpha)
    for pair in range(whole.shape[0]):
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = slope[:, pair, 1] / slope[:, pair, 0]
        alpha[:, pair + 1] = alpha[:, pair] * ratio
        beta[:, pair + 1] = height[:, pair, 1] - ratio * (height[:, pair, 0] - beta[:, pair])
    return alpha, beta
