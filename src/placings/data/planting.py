"""The kinds of features in made data: what each looks like, and on which scale its signal is planted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal, TypeAlias

import numpy as np
from numpy.random import Generator

from placings.arrays import AnyArray, Floats, Ints

Scale: TypeAlias = Literal["log", "rank", "raw"]

LARGEST = 1e8  # the heavy tails end here, as MSLR's do
STEEPEST = float(np.log1p(LARGEST))


@dataclass(frozen=True)
class Column:
    """A made feature: its values `[rows]`, and its hidden component, centred and of about unit variance."""

    values: Floats
    component: Floats | None = None


Draw: TypeAlias = Callable[[Generator, Ints], Column]  # a generator and the list sizes


@dataclass(frozen=True)
class Kind:
    """A recipe for features: how one is drawn, on which scale it is useful, how many of 136 are such."""

    scale: Scale | None
    number: int
    draw: Draw


def deal_kinds() -> Iterator[str]:
    """The kinds of columns 1, 2, …: the first of every kind, then each as often as its number says.

    After 136 columns every kind has had exactly its number, and the deal begins anew.
    """
    turns = [
        (turn / kind.number, place)
        for place, kind in enumerate(KINDS.values())
        for turn in range(kind.number)
    ]
    names = list(KINDS)
    for _ in count():
        yield from (names[place] for _, place in sorted(turns))


# -- log: log1p(x) (with x's sign) is linear in the component --------------------------------------


def _draw_click_count(rng: Generator, sizes: Ints) -> Column:
    shape, step = rng.uniform(1.2, 1.8), rng.uniform(1.3, 1.6)
    steps = np.minimum(0.7 + step * rng.standard_gamma(shape, sizes.sum()), STEEPEST)
    values = np.rint(np.expm1(steps))
    return Column(values, (np.log1p(values) - 0.7 - step * shape) / (step * np.sqrt(shape)))


def _draw_link_mass(rng: Generator, sizes: Ints) -> Column:
    shape, step = rng.uniform(1.2, 1.8), rng.uniform(2.0, 2.6)
    steps = np.minimum(step * rng.standard_gamma(shape, sizes.sum()), STEEPEST)
    return Column(np.expm1(steps), (steps - step * shape) / (step * np.sqrt(shape)))


def _draw_traffic_change(rng: Generator, sizes: Ints) -> Column:
    step = rng.uniform(1.8, 2.2)
    steps = np.clip(rng.laplace(0.0, step, sizes.sum()), -STEEPEST, STEEPEST)
    return Column(np.sign(steps) * np.expm1(np.abs(steps)), steps / (step * np.sqrt(2.0)))


# -- rank: the share of values strictly below x is linear in the component -------------------------


def _draw_quality_ratio(rng: Generator, sizes: Ints) -> Column:
    power = rng.uniform(6.0, 9.0)
    share = rng.random(sizes.sum())
    return Column(share**power, (share - 0.5) * np.sqrt(12.0))


def _draw_visit_bursts(rng: Generator, sizes: Ints) -> Column:
    low, high = rng.uniform(0.72, 0.8), rng.uniform(0.92, 0.96)
    share = rng.random(sizes.sum())
    burst = np.searchsorted([low, high], share, side="right")
    values = np.array([1e3, 1e4, 1e7])[burst] * (1.0 + 0.05 * share)  # three narrow hills, in order
    return Column(values, (share - 0.5) * np.sqrt(12.0))


def _draw_fan_out(rng: Generator, sizes: Ints) -> Column:
    power = rng.uniform(5.0, 7.0)
    share = rng.random(sizes.sum())
    return Column(np.expm1(STEEPEST * share**power), (share - 0.5) * np.sqrt(12.0))


def _draw_anchor_hits(rng: Generator, sizes: Ints) -> Column:
    nothing, power = rng.uniform(0.25, 0.4), rng.uniform(5.0, 7.0)
    share = rng.random(sizes.sum())
    below = np.where(share < nothing, 0.0, share)  # the share strictly below: 0 for all the zeros
    mean = (1.0 - nothing**2) / 2.0
    std = np.sqrt((1.0 - nothing**3) / 3.0 - mean**2)
    return Column(np.expm1(0.8 * STEEPEST * below**power), (below - mean) / std)


# -- raw: x itself is linear in the component ------------------------------------------------------


def _draw_bm25(rng: Generator, sizes: Ints) -> Column:
    shape, step = rng.uniform(1.0, 1.5), rng.uniform(12.0, 20.0)
    values = step * rng.standard_gamma(shape, sizes.sum())
    return Column(values, (values / step - shape) / np.sqrt(shape))


def _draw_log_probability(rng: Generator, sizes: Ints) -> Column:
    shape, step = rng.uniform(1.0, 1.5), rng.uniform(8.0, 15.0)
    values = -step * rng.standard_gamma(shape, sizes.sum())
    return Column(values, (values / step + shape) / np.sqrt(shape))


def _draw_match_margin(rng: Generator, sizes: Ints) -> Column:
    step = rng.uniform(20.0, 40.0)
    values = rng.laplace(0.0, step, sizes.sum())
    return Column(values, values / (step * np.sqrt(2.0)))


# -- no signal -------------------------------------------------------------------------------------


def _draw_stream_length(rng: Generator, sizes: Ints) -> Column:
    return Column(np.rint(rng.lognormal(rng.uniform(2.0, 7.0), rng.uniform(0.5, 1.2), sizes.sum())))


def _draw_term_ratio(rng: Generator, sizes: Ints) -> Column:
    return Column(rng.beta(rng.uniform(0.5, 3.0), rng.uniform(0.5, 3.0), sizes.sum()))


def _draw_term_variance(rng: Generator, sizes: Ints) -> Column:
    return Column(
        np.minimum(rng.lognormal(rng.uniform(1.0, 5.0), rng.uniform(2.0, 3.5), sizes.sum()), LARGEST)
    )


def _draw_language_model(rng: Generator, sizes: Ints) -> Column:
    return Column(-rng.uniform(1.0, 3.0) * rng.standard_gamma(rng.uniform(4.0, 12.0), sizes.sum()))


def _draw_rare_hits(rng: Generator, sizes: Ints) -> Column:
    rows, rare = sizes.sum(), rng.uniform(0.01, 0.15)
    values = np.zeros(rows)
    hit = np.flatnonzero(rng.random(rows) < rare)
    values[hit] = rng.geometric(rng.uniform(0.1, 0.5), len(hit))
    return Column(values)


def _draw_query_idf(rng: Generator, sizes: Ints) -> Column:
    return Column(np.repeat(rng.uniform(2.0, 40.0) * rng.random(len(sizes)), sizes))


def _draw_url_flag(rng: Generator, sizes: Ints) -> Column:
    return Column((rng.random(sizes.sum()) < rng.uniform(0.2, 0.8)).astype(np.float64))


def _draw_constant(rng: Generator, sizes: Ints) -> Column:
    return Column(np.full(sizes.sum(), rng.choice([0.0, 0.0, 1.0, 7.5])))


KINDS: dict[str, Kind] = {
    "click_count": Kind("log", 5, _draw_click_count),
    "quality_ratio": Kind("rank", 3, _draw_quality_ratio),
    "bm25": Kind("raw", 5, _draw_bm25),
    "link_mass": Kind("log", 5, _draw_link_mass),
    "anchor_hits": Kind("rank", 3, _draw_anchor_hits),
    "log_probability": Kind("raw", 3, _draw_log_probability),
    "traffic_change": Kind("log", 2, _draw_traffic_change),
    "fan_out": Kind("rank", 2, _draw_fan_out),
    "match_margin": Kind("raw", 2, _draw_match_margin),
    "visit_bursts": Kind("rank", 2, _draw_visit_bursts),
    "term_ratio": Kind(None, 24, _draw_term_ratio),
    "stream_length": Kind(None, 20, _draw_stream_length),
    "term_variance": Kind(None, 18, _draw_term_variance),
    "language_model": Kind(None, 14, _draw_language_model),
    "rare_hits": Kind(None, 14, _draw_rare_hits),
    "query_idf": Kind(None, 6, _draw_query_idf),
    "url_flag": Kind(None, 5, _draw_url_flag),
    "constant": Kind(None, 3, _draw_constant),
}


def drop_some(values: AnyArray, share: float, rng: Generator) -> None:
    """Set a random share of a feature's own column to missing, in place."""
    values[rng.random(len(values)) < share] = np.nan
