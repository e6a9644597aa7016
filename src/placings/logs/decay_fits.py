"""Elasticsearch's decay functions, and how well the best of each fits the distances people click at.

With d' = max(0, |x − origin| − offset), and scale and decay such that the score is `decay` at offset + scale:

- linear: max(0, 1 − d' · (1 − decay) / scale)
- exp: exp(ln(decay) · d' / scale)
- gauss: exp(ln(decay) · (d' / scale)²)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placings.core import BadInput, Floats, UnknownName

DECAY = 0.5  # Elasticsearch's default
SHAPES: dict[str, Callable[[Floats, float], Floats]] = {
    "linear": lambda away, decay: np.maximum(0.0, 1.0 - away * (1.0 - decay)),
    "exp": lambda away, decay: np.exp(math.log(decay) * away),
    "gauss": lambda away, decay: np.exp(math.log(decay) * away * away),
}


@dataclass(frozen=True)
class Observed:
    """A histogram of distances from 0 to `edges[-1]` km; `heights` are counts over the largest count.

    `beyond` is the share of distances that lie farther out, `count` how many distances there are.
    """

    edges: Floats
    heights: Floats
    beyond: float
    count: int

    @property
    def middles(self) -> Floats:
        """The middle of each bin."""
        return (self.edges[1:] + self.edges[:-1]) / 2


@dataclass(frozen=True)
class Fit:
    """The best parameters of one decay function, and how far it stays off.

    `error` is the root of the mean squared difference, `worst` the largest difference and `worst_at` its
    distance, `explained` is 1 − squared differences / variance: below 0 a flat line would be nearer.
    """

    kind: str
    scale: float
    offset: float
    decay: float
    error: float
    worst: float
    worst_at: float
    explained: float


def score_decay(
    distances: Floats, kind: str, *, scale: float, offset: float = 0.0, decay: float = DECAY
) -> Floats:
    """The score that a decay function gives to each distance from its origin; NaN stays NaN.

    >>> score_decay(np.array([0.0, 1.0, 3.0]), "gauss", scale=2.0, offset=1.0)
    array([1. , 1. , 0.5])
    """
    if kind not in SHAPES:
        raise UnknownName("decay function", kind, SHAPES)
    if not (scale > 0.0 and offset >= 0.0 and 0.0 < decay < 1.0):
        raise BadInput(
            "scale must be above 0, offset 0 or more, decay between 0 and 1. "
            f"Got scale={scale}, offset={offset}, decay={decay}."
        )
    away = np.maximum(0.0, np.asarray(distances, dtype=np.float64) - offset) / scale
    return SHAPES[kind](away, decay)


def observe_distances(distances: Floats, *, bins: int = 40, reach: float = 0.95) -> Observed:
    """How often each distance occurs, up to the quantile `reach`; the tallest bin is 1, as a decay begins.

    Missing distances are left out; without any the histogram has no bins. All equal ones fill one bin.
    """
    known = np.asarray(distances, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return Observed(np.zeros(1), np.zeros(0), math.nan, 0)
    end = float(np.quantile(known, reach)) or float(known.max()) or 1.0
    counts, edges = np.histogram(known, bins=bins, range=(0.0, end))
    heights = counts / max(int(counts.max()), 1)
    return Observed(edges, heights, float((known > end).mean()), len(known))


def fit_decay(observed: Observed, kind: str, *, decay: float = DECAY) -> Fit:
    """The scale and offset whose curve is nearest to the histogram, by least squares over its bins.

    The origin is the user. `decay` stays as given, for scale and decay say the same thing twice: each pair
    has an equal one with another decay. A grid finds the neighbourhood, Nelder and Mead the minimum.
    Without bins it is an error.
    """
    if kind not in SHAPES:
        raise UnknownName("decay function", kind, SHAPES)
    if not len(observed.heights):
        raise BadInput("there is no distance to fit. Got an empty histogram.")
    from scipy.optimize import minimize

    middles, heights = observed.middles, observed.heights
    end = float(observed.edges[-1])

    def miss(point: Floats) -> float:
        scale, offset = math.exp(point[0]), max(0.0, point[1])
        away = score_decay(middles, kind, scale=scale, offset=offset, decay=decay) - heights
        return float(away @ away) + max(0.0, -float(point[1])) ** 2

    scales = np.geomspace(end / (4 * len(middles)), 4 * end, 50)
    offsets = np.linspace(0.0, end, 41)
    away = np.maximum(0.0, middles - offsets[:, None, None]) / scales[:, None]  # [offset, scale, bin]
    losses = ((SHAPES[kind](away, decay) - heights) ** 2).sum(axis=2)
    row, column = np.unravel_index(int(np.argmin(losses)), losses.shape)
    start = np.array([math.log(scales[column]), offsets[row]])
    steps = np.array([start, start + np.array([0.1, 0.0]), start + np.array([0.0, end / 40])])
    found = minimize(
        miss, start, method="Nelder-Mead",
        options={"initial_simplex": steps, "xatol": 1e-6, "fatol": 1e-12, "maxiter": 2000},
    ).x  # fmt: skip
    scale, offset = float(math.exp(found[0])), float(max(0.0, found[1]))
    gap = score_decay(middles, kind, scale=scale, offset=offset, decay=decay) - heights
    spread = float(((heights - heights.mean()) ** 2).sum())
    worst = int(np.argmax(np.abs(gap)))
    return Fit(
        kind, scale, offset, decay, float(np.sqrt((gap**2).mean())), float(abs(gap[worst])),
        float(middles[worst]), 1.0 - float((gap**2).sum()) / spread if spread else math.nan,
    )  # fmt: skip
