"""Confidence sequences: intervals and tests over a stream of people that hold at every look, not at one.

A 95 % interval of fixed size that is looked at every day excludes the truth on some day far more often than
in 5 % of experiments. These do not: with the stated probability they hold at all looks together, so anybody
may look at any time and stop whenever they like.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Bools, Floats, Ints, check_share

TIGHTEST = (
    5_000  # people at which intervals are narrowest; fixed ahead, for a choice after a look is no choice
)
LEAST = 50  # people of each arm before there is an interval: variances of fewer are too rough
PRIOR = (
    2_500.0  # people whose worth the sample-ratio test's prior has: deviations of about 0.01 are looked for
)


@dataclass(frozen=True)
class ConfidenceSequence:
    """An estimate at each look and its interval's ends, `[looks]`; NaN before there are enough people."""

    counts: Ints
    estimates: Floats
    lows: Floats
    highs: Floats

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 is outside at the last look."""
        return len(self.lows) > 0 and bool(self.lows[-1] > 0 or self.highs[-1] < 0)


def find_radius(
    counts: ArrayLike, variances: ArrayLike, *, level: float = 0.95, tightest: int = TIGHTEST
) -> Floats:
    """Half the width of an asymptotic confidence sequence for a mean, at each of the counts.

    With n people, variance σ² and α = 1 − level:

        σ · √( 2(nρ² + 1) / (n²ρ²) · ln( √(nρ² + 1) / α ) ),   ρ² = (−2 ln α + ln(−2 ln α + 1)) / tightest

    At n = `tightest` it is narrowest in relation to the interval of fixed size, which it exceeds there by a
    half. Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: Time-uniform central limit theory and asymptotic
    confidence sequences, Annals of Statistics 2024 (arXiv 2103.06476).

    >>> find_radius([5_000], [0.25]).round(4), round(1.96 * (0.25 / 5_000) ** 0.5, 4)
    (array([0.0215]), 0.0139)
    """
    check_share("level", level)
    alpha = 1.0 - level
    rho = (-2.0 * math.log(alpha) + math.log(-2.0 * math.log(alpha) + 1.0)) / tightest
    n = np.asarray(counts, dtype=np.float64)
    grown = n * rho + 1.0
    return np.sqrt(
        np.asarray(variances, dtype=np.float64)
        * (2.0 * grown / (n * n * rho))
        * np.log(np.sqrt(grown) / alpha)
    )


def follow_mean(
    values: ArrayLike,
    looks: ArrayLike | None = None,
    *,
    level: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    tightest: int = TIGHTEST,
) -> ConfidenceSequence:
    """The mean of the first n values at each look, with its confidence sequence.

    `values` `[people]` come in the order in which people were counted, each person once; `looks` are numbers
    of people, by default only all. Values lie within `bounds`, and so do intervals. The variance has one
    person more, who is off by the whole range: rare clicks in a small arm would else pass for certainty.

    >>> follow_mean([0.0, 1.0] * 500).highs.round(2)
    array([0.55])
    """
    told, span = _as_values(values, bounds)
    at = _as_looks(looks, len(told))
    count, mean, variance = _accumulate(told, np.ones(len(told), dtype=bool), at, span)
    radius = find_radius(np.maximum(count, 1), variance, level=level, tightest=tightest)
    radius = np.where(count >= LEAST, radius, np.nan)
    return _clip(ConfidenceSequence(at, mean, mean - radius, mean + radius), *bounds)


def follow_difference(
    values: ArrayLike,
    treated: ArrayLike,
    looks: ArrayLike | None = None,
    *,
    level: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    tightest: int = TIGHTEST,
) -> ConfidenceSequence:
    """The mean of the treated less that of the others at each look, with its confidence sequence.

    With n = n₁ + n₀ people and variances s₁², s₀², the difference is a mean over all n of terms with variance
    n · (s₁²/n₁ + s₀²/n₀), which goes into `find_radius`. Arms may have any shares. Each person once, in the
    order in which they were counted.

    >>> both = follow_difference([0.0, 1.0] * 1000, [True, True, False, False] * 500)
    >>> both.estimates, both.excludes_zero
    (array([0.]), False)
    """
    told, span = _as_values(values, bounds)
    chosen = np.asarray(treated, dtype=bool)
    if chosen.shape != told.shape:
        raise BadInput(f"treated must have one value a person: {len(told)}. Got {chosen.shape}.")
    at = _as_looks(looks, len(told))
    n1, mean1, variance1 = _accumulate(told, chosen, at, span)
    n0, mean0, variance0 = _accumulate(told, ~chosen, at, span)
    enough = (n1 >= LEAST) & (n0 >= LEAST)
    n = np.maximum(n1 + n0, 1)
    variance = n * (variance1 / np.maximum(n1, 1) + variance0 / np.maximum(n0, 1))
    radius = np.where(enough, find_radius(n, variance, level=level, tightest=tightest), np.nan)
    difference = mean1 - mean0
    return _clip(ConfidenceSequence(at, difference, difference - radius, difference + radius), -span, span)


def weigh_counts(counts: Mapping[str, int], shares: Mapping[str, float], *, prior: float = PRIOR) -> float:
    """The log of how much more likely counts of people are if their shares are not the stated ones.

    The alternative has shares with a Dirichlet prior around the stated ones, θ, as strong as `prior` people:

        ln Γ(k) / Γ(k + n) + Σ ln Γ(kθᵢ + nᵢ) / Γ(kθᵢ) − Σ nᵢ ln θᵢ

    If the shares are the stated ones, this is ever above ln(1/α) with a probability of at most α, however
    often one looks: a sample-ratio test at any time. Ratios of periods with other shares are added up.
    Infinite if anybody is in an arm with share 0. Lindon, Malek: Anytime-valid inference for multinomial
    count data, NeurIPS 2022.

    >>> weigh_counts({"a": 500, "b": 500}, {"a": 0.5, "b": 0.5}) < 0
    True
    >>> weigh_counts({"a": 6_000, "b": 4_000}, {"a": 0.5, "b": 0.5}) > math.log(1_000)
    True
    """
    unknown = sorted(set(counts) - set(shares))
    if unknown:
        raise BadInput(f"every arm must have a share. Got none for {', '.join(unknown)}.")
    total = sum(counts.values())
    found = math.lgamma(prior) - math.lgamma(prior + total)
    for name, share in shares.items():
        count = counts.get(name, 0)
        if share == 0.0 and count:
            return math.inf
        if share > 0.0:
            found += math.lgamma(prior * share + count) - math.lgamma(prior * share)
            found -= count * math.log(share)
    return found


def _as_values(values: ArrayLike, bounds: tuple[float, float]) -> tuple[Floats, float]:
    """The values, and the width of their range."""
    told, (low, high) = np.asarray(values, dtype=np.float64), bounds
    if told.ndim != 1 or not np.isfinite(told).all():
        raise BadInput(f"values must be finite numbers, one a person. Got shape {told.shape}.")
    if len(told) and not (told.min() >= low and told.max() <= high):
        raise BadInput(f"values must be from {low:g} to {high:g}. Got {told.min():g} to {told.max():g}.")
    return told, high - low


def _clip(found: ConfidenceSequence, low: float, high: float) -> ConfidenceSequence:
    return replace(found, lows=np.maximum(found.lows, low), highs=np.minimum(found.highs, high))


def _as_looks(looks: ArrayLike | None, people: int) -> Ints:
    at = np.array([people] if looks is None else looks, dtype=np.int64)
    if len(at) and not (at.min() >= 0 and at.max() <= people):
        raise BadInput(
            f"looks must be from 0 to {people}, the number of people. Got {at.min()} to {at.max()}."
        )
    return at


def _accumulate(values: Floats, chosen: Bools, at: Ints, span: float) -> tuple[Floats, Floats, Floats]:
    """Number, mean and variance of the chosen among the first n, at each look."""
    kept = np.where(chosen, values, 0.0)
    sums = np.concatenate([[0.0], np.cumsum(kept)])[at]
    squares = np.concatenate([[0.0], np.cumsum(kept * kept)])[at]
    count = np.concatenate([[0.0], np.cumsum(chosen)])[at]
    mean = np.divide(sums, count, out=np.full(len(at), np.nan), where=count > 0)
    around = np.maximum(squares - np.where(count > 0, sums * mean, 0.0), 0.0)
    return count, mean, (around + span * span) / (count + 1.0)
