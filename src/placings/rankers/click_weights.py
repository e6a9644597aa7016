"""Weights for clicks: a click far down the list stands for all the people who never looked there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Floats
from placings.data import check_length, check_weight

CLIP = 10.0  # no click stands for more than this many


@dataclass(frozen=True, eq=False)
class ClickWeights:
    """What `weigh_clicks` found: a weight for each row, and what clipping costs.

    `weights` `[rows]`; `clip`, None if nothing was clipped; `clicks`, the rows of a label above 0;
    `share_clipped`, how many of these weigh less than one over their propensity; `bias_bound`, the share of
    all unclipped weight that was cut away; `effective_clicks`, `(Σ w)² / Σ w²` over the clicks: as many
    clicks of equal weight would be as noisy.
    """

    weights: Floats
    clip: float | None
    clicks: int
    share_clipped: float
    bias_bound: float
    effective_clicks: float

    def to_facts(self) -> dict[str, float | int | None]:
        """All but the weights, as a bundle keeps it."""
        return {
            "clip": self.clip,
            "clicks": self.clicks,
            "share_clipped": self.share_clipped,
            "bias_bound": self.bias_bound,
            "effective_clicks": self.effective_clicks,
        }


def weigh_clicks(labels: ArrayLike, propensity: ArrayLike, *, clip: float | None = CLIP) -> ClickWeights:
    """The weight of each row that undoes what its position did to its chance of a click.

    `w_i = min(1/p_i, clip) / m` for rows of a label above 0, with m such that these have mean 1; 1 for all
    others. Without a clip, a sum over clicks of `w · f` has the expectation (up to the factor 1/m) of the
    same sum over all items that people would have clicked had they looked. A clip trades some of that for
    less noise: of `Σ f/p` over the clicks, with f from 0 to F, it loses at most `bias_bound · F · Σ 1/p`.

    `labels` `[rows]`, `propensity` `[rows]` above 0 and at most 1: the probability that the row's position is
    looked at, relative to position 1. Without a click all weights are 1. `clip=None` clips nothing.

    >>> found = weigh_clicks([1, 0, 1, 1], [1.0, 0.5, 0.5, 0.05], clip=9.0)  # 1, 2 and 20, clipped to 9
    >>> found.weights  # 1, 2 and 9 over their mean, 4
    array([0.25, 1.  , 0.5 , 2.25])
    >>> round(found.share_clipped, 3), round(found.bias_bound, 3)  # one of three; (20 − 9) / (1 + 2 + 20)
    (0.333, 0.478)

    Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017.
    """
    check_clip(clip)
    values = np.asarray(labels, dtype=np.float64)
    if values.ndim != 1:
        raise BadInput(f"labels must be one-dimensional, one value a row. Got shape {values.shape}.")
    seen = check_weight(propensity, "propensity")
    if seen is None:
        raise BadInput("propensity must have one value for each row. Got None.")
    check_length(seen, len(values), "propensity")
    clicked = values > 0.0
    full = 1.0 / np.asarray(seen[clicked], dtype=np.float64)
    cut = full if clip is None else np.minimum(full, clip)
    weights = np.ones(len(values))
    if not len(full):
        return ClickWeights(weights, clip, 0, 0.0, 0.0, 0.0)
    weights[clicked] = cut / cut.mean()
    return ClickWeights(
        weights,
        clip,
        len(full),
        share_clipped=float((cut < full).mean()),
        bias_bound=float((full - cut).sum() / full.sum()),
        effective_clicks=float(cut.sum() ** 2 / np.square(cut).sum()),
    )


def check_clip(clip: float | None) -> None:
    """Refuse a clip below 1: it would cut clicks at position 1, whose propensity is 1."""
    if clip is None:
        return
    number = isinstance(clip, int | float | np.integer | np.floating) and not isinstance(clip, bool)
    if not number or not 1.0 <= clip < np.inf:
        raise BadInput(f"clip must be a finite number of 1 or more, or None for no clip. Got {clip!r}.")
