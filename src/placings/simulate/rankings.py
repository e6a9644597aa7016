"""Made ranking data with MSLR's character, whose useful features and their scales are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from typing import Literal, TypeAlias

import numpy as np
from numpy.random import Generator, SeedSequence

from placings.core import (
    AnyArray,
    BadInput,
    Bools,
    Floats,
    Floats32,
    Ints,
    UnknownName,
    as_vector,
    count_threads,
    map_in_order,
)
from placings.data import RankingData, check_seed

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
class FeatureRecipe:
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


KINDS: dict[str, FeatureRecipe] = {
    "click_count": FeatureRecipe("log", 5, _draw_click_count),
    "quality_ratio": FeatureRecipe("rank", 3, _draw_quality_ratio),
    "bm25": FeatureRecipe("raw", 5, _draw_bm25),
    "link_mass": FeatureRecipe("log", 5, _draw_link_mass),
    "anchor_hits": FeatureRecipe("rank", 3, _draw_anchor_hits),
    "log_probability": FeatureRecipe("raw", 3, _draw_log_probability),
    "traffic_change": FeatureRecipe("log", 2, _draw_traffic_change),
    "fan_out": FeatureRecipe("rank", 2, _draw_fan_out),
    "match_margin": FeatureRecipe("raw", 2, _draw_match_margin),
    "visit_bursts": FeatureRecipe("rank", 2, _draw_visit_bursts),
    "term_ratio": FeatureRecipe(None, 24, _draw_term_ratio),
    "stream_length": FeatureRecipe(None, 20, _draw_stream_length),
    "term_variance": FeatureRecipe(None, 18, _draw_term_variance),
    "language_model": FeatureRecipe(None, 14, _draw_language_model),
    "rare_hits": FeatureRecipe(None, 14, _draw_rare_hits),
    "query_idf": FeatureRecipe(None, 6, _draw_query_idf),
    "url_flag": FeatureRecipe(None, 5, _draw_url_flag),
    "constant": FeatureRecipe(None, 3, _draw_constant),
}


def drop_some(values: AnyArray, share: float, rng: Generator) -> None:
    """Set a random share of a feature's own column to missing, in place."""
    values[rng.random(len(values)) < share] = np.nan


LABEL_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)  # MSLR-WEB30K's grades 0 to 4, rounded
SHARE_WITHOUT_RELEVANT = 0.03  # queries with nothing relevant, as in MSLR-WEB30K
QUERY_SPREAD = 0.5  # how much richer one query is than another, in units of the signal
SIZE_SPREAD = 0.65  # of the logarithm of the list sizes
SHORT = 0.02  # queries with a list of at most ten rows
BLOCK = 8  # columns made together, then written side by side

_SIZES, _WEIGHTS, _QUERIES, _NOISE, _COLUMNS, _MISSING = range(6)  # each draws from a stream of its own


@dataclass(frozen=True)
class Planted:
    """What was planted in one feature: on which scale it is linear in the utility (None: no signal)."""

    name: str
    kind: str
    scale: Scale | None
    weight: float


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Made data and what is true of them.

    `signal` `[rows]` is the utility without noise, `Σ weight × component` over the planted features: no
    ranker that sees the features alone can order the rows of a query better. `seed` makes the same data
    again, also when `random_state` was None.
    """

    data: RankingData
    truth: tuple[Planted, ...]
    signal: Floats32 = field(repr=False)
    seed: int

    def component(self, feature: str) -> Floats:
        """The hidden component of a planted feature `[rows]`, drawn anew from the seed.

        The feature's planted transform (x, sign(x)·log1p|x|, or the share of values strictly below x)
        is a straight line of it.
        """
        names = self.data.feature_names
        if feature not in names:
            raise UnknownName("feature", feature, names)
        planted = self.truth[names.index(feature)]
        rng = open_stream(self.seed, _COLUMNS, names.index(feature))
        component = KINDS[planted.kind].draw(rng, self.data.sizes).component
        if component is None:
            raise BadInput(f"{feature!r} was planted without a signal; it has no component.")
        return component


def make_ranking(
    n_queries: int = 1000,
    *,
    n_features: int = 136,
    random_state: int | None = None,
    noise: float = 1.0,
    missing: float = 0.0,
    mean_size: float = 120.0,
    max_size: int = 1250,
    label_shares: Sequence[float] = LABEL_SHARES,
    items: bool = False,
) -> Synthetic:
    """Make ranking data with MSLR's character, in which it is known what is useful and on which scale.

    Each planted feature j has a hidden component `c_j`, and a row's utility is
    `u = Σ_j w_j c_j + 0.5·richness of its query + noise·ε`, where `Σ w_j² = 1`, and richness and ε are
    standard normal. Labels cut u at the quantiles that give `label_shares`, first among them that of
    label 0; in 3 % of the queries nothing is relevant whatever u says. The feature's value is a function
    of `c_j` that is straight only on its own scale: log (sign(x)·log1p|x|), rank (the share of values
    strictly below) or raw. Kinds, formulas and counts are in docs/synthetic.md.

    `noise` 1 leaves the best possible ranker, `signal`, an NDCG@10 of about 0.7; with 0 it orders every
    query without fault. `missing` is the share of values that are NaN, at random. List sizes are
    lognormal about `mean_size`, from 1 to `max_size`. With fewer features than 136 the first of each kind
    come first, planted ones leading; a column's values do not depend on how many follow it.

    The same `random_state` gives the same bits, however many threads there are.

    >>> made = make_ranking(20, n_features=12, random_state=0)
    >>> made.data.n_queries, made.data.n_features
    (20, 12)
    >>> [(planted.name, planted.scale) for planted in made.truth[:3]]
    [('click_count_log_1', 'log'), ('quality_ratio_rank_2', 'rank'), ('bm25_raw_3', 'raw')]
    """
    queries = _check_whole(n_queries, "n_queries")
    width = _check_whole(n_features, "n_features")
    largest = _check_whole(max_size, "max_size")
    shares = _check_shares(label_shares)
    _check_range(noise, "noise", 0.0, 1e6)
    _check_range(missing, "missing", 0.0, 1.0)
    _check_range(mean_size, "mean_size", 1.0, largest)
    seed = check_seed(random_state)

    sizes = draw_sizes(open_stream(seed, _SIZES), queries, mean_size, largest)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    truth = _plant(open_stream(seed, _WEIGHTS), list(islice(deal_kinds(), width)))
    X, signal = _fill(seed, truth, sizes, missing)
    labels = _grade(seed, signal, sizes, noise, shares)
    data = RankingData(
        X,
        labels,
        offsets,
        np.arange(1, queries + 1),
        tuple(planted.name for planted in truth),
        items=np.arange(1, len(X) + 1) if items else None,
    )
    return Synthetic(data, truth, signal.astype(np.float32), seed)


# -- the parts, each from its own stream ------------------------------------------------------------


def open_stream(seed: int, *place: int) -> Generator:
    """A stream of random numbers for each place: none moves when another is read further."""
    return np.random.default_rng(SeedSequence(seed, spawn_key=place))


def draw_sizes(rng: Generator, queries: int, mean_size: float, max_size: int) -> Ints:
    """List sizes `[queries]`: lognormal about `mean_size`, from 1 to `max_size`, some of them short."""
    usual = (mean_size - SHORT * 5.5) / (1.0 - SHORT)  # short lists have 1 to 10 rows, 5.5 on average
    drawn = rng.lognormal(np.log(max(usual, 1.0)) - SIZE_SPREAD**2 / 2.0, SIZE_SPREAD, queries)
    short = rng.random(queries) < SHORT
    drawn[short] = rng.integers(1, 11, int(short.sum()))
    return np.clip(np.rint(drawn), 1, max_size).astype(np.int64)


def _plant(rng: Generator, kinds: Sequence[str]) -> tuple[Planted, ...]:
    useful = np.array([KINDS[kind].scale is not None for kind in kinds])
    weights = np.where(useful, rng.uniform(0.5, 1.5, len(kinds)), 0.0)
    weights[rng.random(len(kinds)) < 0.2] *= -1.0  # less is better of some
    weights /= np.sqrt((weights**2).sum())
    truth = []
    for place, (kind, weight) in enumerate(zip(kinds, weights.tolist(), strict=True), 1):
        scale = KINDS[kind].scale
        truth.append(Planted(f"{kind}_{scale or 'none'}_{place}", kind, scale, weight + 0.0))
    return tuple(truth)


def _fill(seed: int, truth: Sequence[Planted], sizes: Ints, missing: float) -> tuple[Floats32, Floats]:
    """The features `[rows, features]` and the signal `[rows]`, added up in the order of the columns."""
    rows = int(sizes.sum())
    X = np.empty((rows, len(truth)), dtype=np.float32)
    signal = np.zeros(rows)
    threads = min(count_threads(), 8) if X.size > 100_000 else 1
    blocks: Iterable[int] = range(0, len(truth), BLOCK)
    for part in map_in_order(partial(_fill_block, X, seed, truth, sizes, missing), blocks, threads=threads):
        signal += part
    return X, signal


def _fill_block(
    X: Floats32, seed: int, truth: Sequence[Planted], sizes: Ints, missing: float, start: int
) -> Floats:
    chosen = truth[start : start + BLOCK]
    block = np.empty((len(chosen), len(X)), dtype=np.float32)
    signal = np.zeros(len(X))
    for place, planted in enumerate(chosen):
        made = KINDS[planted.kind].draw(open_stream(seed, _COLUMNS, start + place), sizes)
        block[place] = made.values
        if made.component is not None:
            signal += planted.weight * made.component
        if missing:
            drop_some(block[place], missing, open_stream(seed, _MISSING, start + place))
    X[:, start : start + len(chosen)] = block.T
    return signal


def _grade(seed: int, signal: Floats, sizes: Ints, noise: float, shares: Floats) -> Floats:
    rng = open_stream(seed, _QUERIES)
    richness = rng.standard_normal(len(sizes))
    without_relevant = np.zeros(len(sizes), dtype=np.bool_)
    without_relevant[rng.permutation(len(sizes))[: round(SHARE_WITHOUT_RELEVANT * len(sizes))]] = True
    utility = signal + QUERY_SPREAD * np.repeat(richness, sizes)
    utility += noise * open_stream(seed, _NOISE).standard_normal(len(signal))
    return _cut(utility, np.repeat(without_relevant, sizes), shares)


def _cut(utility: Floats, without_relevant: Bools, shares: Floats) -> Floats:
    """Labels whose shares of all rows are `shares`, with label 0 for every barren row."""
    with_relevant = np.flatnonzero(~without_relevant)
    above = np.cumsum(shares[::-1])[::-1][1:]  # the share of rows with label 1 or more, 2 or more, …
    counts = np.minimum(np.rint(above * len(utility)).astype(np.int64), len(with_relevant))
    labels = np.zeros(len(utility))
    order = np.argsort(utility[with_relevant], kind="stable")[::-1]
    for number in counts:
        labels[with_relevant[order[:number]]] += 1.0
    return labels


# -- checks -----------------------------------------------------------------------------------------


def _check_whole(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise BadInput(f"{name} must be a whole number of at least 1. Got {value!r}.")
    return int(value)


def _check_range(value: float, name: str, low: float, high: float) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and low <= value <= high):
        raise BadInput(f"{name} must be a number from {low:g} to {high:g}. Got {value!r}.")


def _check_shares(shares: Sequence[float]) -> Floats:
    given = as_vector(shares, "label_shares")
    if not (given >= 0.0).all() or abs(given.sum() - 1.0) > 1e-9:
        raise BadInput(f"label_shares must be 0 or more and add up to 1. Got {shares!r}.")
    return given
