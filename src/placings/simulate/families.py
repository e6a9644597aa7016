"""Families of made ranking data: 14 to develop on, and twice 14 for the end, with truths of many forms.

A family is a plan (which features, which truth, which labels, how many queries) and a seed; `make_family`
draws training and test queries from it. The settings of each part are dealt from the same levels, so the
parts are alike in every setting taken alone, and what was developed on one can be tried once on another.
The "fresh" part came later: for what was built after the results on the "final" one were known.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import Generator

from placings.core import BadInput, Bools, Floats, Floats32, Ints, check_count, check_name
from placings.data import RankingData, check_seed
from placings.simulate.rankings import KINDS, LABEL_SHARES, Column, draw_sizes, drop_some, open_stream

Part: TypeAlias = Literal["development", "final", "fresh"]
Truth: TypeAlias = Literal["additive", "interacting"]

# Deal out the settings and the families' seeds; never to be changed.
SETTINGS_SEED = 20261118
FRESH_SEED = 20261119
TEST_QUERIES = 1000
FEWEST_USEFUL = 4  # features, however few there are: an interaction needs some
RICHNESS = 0.5  # how much richer one query is than another, in units of the signal
LONGEST = 5  # times the mean list size is the longest list

# Fourteen levels for each setting: a part deals them out in an order of its own, so all have the same ones.
LEVELS: dict[str, tuple[Any, ...]] = {
    "interaction": (
        None, None, None, None, None, None, None,
        "products", "rules", "ratios", "gate", "tree", "several", "several",
    ),
    "shape": (
        "log", "log", "rank", "rank", "raw", "raw", "all", "all", "all",
        "humps", "humps", "steps", "mixed", "mixed",
    ),
    "size": (
        (60, 20), (60, 40), (60, 60), (200, 10), (200, 20), (200, 30), (200, 60),
        (500, 10), (500, 20), (500, 30), (500, 40), (1500, 10), (1500, 20), (1500, 30),
    ),
    "features": (10, 10, 16, 24, 24, 32, 46, 46, 64, 64, 90, 100, 136, 136),
    "useless": (0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.75, 0.75, 0.75, 0.75, 0.9, 0.9, 0.9, 0.9),
    "labels": (
        "binary", "binary", "binary", "three", "three", "three", "mslr", "mslr", "mslr", "mslr",
        "click", "click", "per_query", "per_query",
    ),
    "noise": (0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2),
    "missing": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.05, 0.05, 0.05, 0.3, 0.3, 0.3, 0.3),
    "copies": (
        None, None, None, None, None, None,
        "duplicated", "duplicated", "duplicated", "duplicated",
        "correlated", "correlated", "correlated", "correlated",
    ),
    "drift": (
        None, None, None, None, None, None, None, None,
        "scales", "scales", "scales", "mix", "mix", "mix",
    ),
    "interacting_share": (0.5, 0.5, 0.5, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7, 0.9, 0.9, 0.9, 0.9),
}  # fmt: skip

SHARES: dict[str, tuple[float, ...]] = {  # of the labels 0, 1, 2, … among the training rows
    "binary": (0.95, 0.05), "three": (0.7, 0.2, 0.1), "mslr": LABEL_SHARES,
}  # fmt: skip
TOP_SHARES = (0.4, 0.2, 0.1, 0.05)  # "per_query": the best so many of a list have label 1, 2, 3, 4 or more
STRANGER = {
    "train": 0.2,
    "test": 0.8,
}  # the share of queries of the second kind where the mix of kinds drifts


@dataclass(frozen=True)
class Family:
    """One family: what its data are like, and the seed that its truth comes from.

    `truth` is "additive" (the utility is a sum of effects of single features) or "interacting" (a share
    `interacting_share` of its variance is `interaction`: "products" of two features, and/or "rules" on
    thresholds, "ratios" of two features, a "gate" by a feature of the query, a "tree", or "several", that is
    products, rules and a gate). `shape` says how a single useful feature acts: straight in the scale "log",
    "rank" or "raw", "all" (each in one of the three), in "humps", in "steps", or "mixed". `labels` cut the
    utility: "binary" (5 % positive), "three" grades, "mslr" (0 to 4 with MSLR's shares), "click" (one
    positive in a list), "per_query" (0 to 4 by the place in the list). `noise` is in units of the signal.
    `missing` is the share of NaN in every other feature. `copies` of useful features are "duplicated" or
    "correlated". `drift` of the test queries: feature "scales", or the "mix" of query kinds.

    >>> family = FAMILIES["dev01"]
    >>> family.part, family.truth in ("additive", "interacting")
    ('development', True)
    """

    name: str
    part: Part
    seed: int
    queries: int
    mean_size: int
    features: int
    useless: float
    shape: str
    interaction: str | None
    interacting_share: float
    labels: str
    noise: float
    missing: float
    copies: str | None
    drift: str | None

    @property
    def truth(self) -> Truth:
        """Whether effects of single features add up to the utility."""
        return "additive" if self.interaction is None else "interacting"

    @property
    def useful(self) -> int:
        """How many features the truth rests on, copies not counted."""
        return max(FEWEST_USEFUL, round((1.0 - self.useless) * self.features))

    @property
    def about(self) -> str:
        """What it is, in one line."""
        parts = [
            f"{self.interaction or 'additive'}, effects {self.shape}, labels {self.labels}",
            f"{self.queries:,} queries of {self.mean_size} rows",
            f"{self.features} features, {self.useful} useful",
            f"noise {self.noise:g}",
            f"missing {self.missing:g}" if self.missing else "",
            f"{self.copies} copies" if self.copies else "",
            f"drift of {self.drift}" if self.drift else "",
        ]
        return "; ".join(part for part in parts if part)


def _deal_families(seed: int, prefixes: Mapping[Part, str]) -> dict[str, Family]:
    """Fourteen families of each part, setting by setting in turn, from one stream.

    Python promises that a seed gives the same `random()` in every version, but not the same `shuffle`: so the
    order comes from sorting draws.
    """
    stream = random.Random(seed)
    dealt: dict[Part, list[dict[str, Any]]] = {part: [{} for _ in range(14)] for part in prefixes}
    for setting, levels in LEVELS.items():
        for part in prefixes:
            order = sorted(range(14), key=[stream.random() for _ in range(14)].__getitem__)
            for family, place in zip(dealt[part], order, strict=True):
                family[setting] = levels[place]
    found = {}
    for number in range(1, 15):
        for part, prefix in prefixes.items():
            settings = dealt[part][number - 1]
            queries, mean_size = settings.pop("size")
            name = f"{prefix}{number:02d}"
            own = int(stream.random() * 2**31)
            found[name] = Family(name, part, own, queries, mean_size, **settings)
    return dict(sorted(found.items()))


FAMILIES: dict[str, Family] = {
    **_deal_families(SETTINGS_SEED, {"development": "dev", "final": "final"}),
    **_deal_families(FRESH_SEED, {"fresh": "fresh"}),
}


@dataclass(frozen=True, eq=False)
class FamilyDraw:
    """Data drawn from a family, and what is true of the test rows.

    `signal` `[test rows]` is the utility without noise: no ranker orders the rows of a query better.
    `effects` are the parts of it that belong to single features, by name; where `additive`, they add up to
    `signal`.
    """

    train: RankingData
    test: RankingData
    additive: bool
    signal: Floats = field(repr=False)
    effects: Mapping[str, Floats] = field(repr=False)


# -- the plan of a family, from its seed alone -------------------------------------------------------------

_PLAN, _SIZES, _KINDS, _QUERIES, _NOISE, _COLUMNS, _COPIES, _MISSING, _SCALES = range(9)
_SCALE_OF = {"log": ("log",), "rank": ("rank",), "raw": ("raw",)}  # other shapes take features of all scales
_SHAPES = {"humps": ("hump",), "steps": ("step",), "mixed": ("straight", "hump", "step")}


@dataclass(frozen=True)
class FeatureEffect:
    """The effect of one useful feature: its weight, and a shape with its place."""

    weight: float
    shape: str
    place: float

    def act(self, component: Floats) -> Floats:
        """The effect on rows with these hidden components, before it is centred and scaled.

        >>> FeatureEffect(1.0, "step", 0.0).act(np.array([-1.0, 0.5, 2.0]))  # the second step is at place + 1
        array([0., 1., 2.])
        """
        if self.shape == "hump":
            humped: Floats = np.exp(-2.0 * (component - self.place) ** 2)
            return humped
        if self.shape == "step":
            return (component > self.place).astype(np.float64) + (component > self.place + 1.0)
        return component


def _plan_kinds(family: Family, rng: Generator) -> list[str]:
    """The kind of each column, the useful ones first, then a gate if there is one, then useless ones."""
    wanted = _SCALE_OF.get(family.shape, ("log", "rank", "raw"))
    telling = [name for name, kind in KINDS.items() if kind.scale in wanted] + ["sparse_count"] * (
        "log" in wanted
    )
    with_scale = [name for name, kind in KINDS.items() if kind.scale is not None]
    without = [name for name, kind in KINDS.items() if kind.scale is None]
    kinds = [str(rng.choice(telling)) for _ in range(family.useful)]
    if family.interaction in ("gate", "several"):
        kinds.append("query_idf")
    while len(kinds) < family.features:  # what looks like a useful feature may as well be useless
        kinds.append(str(rng.choice(with_scale if rng.random() < 0.4 else without)))
    return kinds


def _plan_effects(family: Family, rng: Generator) -> list[FeatureEffect]:
    weights = rng.uniform(0.5, 1.5, family.useful) * np.where(rng.random(family.useful) < 0.2, -1.0, 1.0)
    weights /= np.sqrt((weights**2).sum())
    shapes = _SHAPES.get(family.shape, ("straight",))
    return [
        FeatureEffect(float(weight), str(rng.choice(shapes)), float(rng.uniform(-0.5, 0.5)))
        for weight in weights
    ]


def _draw_sparse_count(rng: Generator, sizes: Ints) -> Column:
    """Counts of which 60 to 85 % are 0; log1p(x) is linear in the component."""
    rows, zeros = int(sizes.sum()), rng.uniform(0.6, 0.85)
    counts = rng.geometric(rng.uniform(0.05, 0.3), rows)
    values = np.where(rng.random(rows) < zeros, 0.0, counts)
    return Column(values, _standardise(np.log1p(values)))


def _standardise(values: Floats) -> Floats:
    spread = float(values.std())
    centred: Floats = values - values.mean()
    return centred / spread if spread > 0.0 else centred


# -- interactions: each gives `[rows]` from the components `[useful, rows]` ----------------------------------


def _multiply(components: Floats, gate: Floats | None, rng: Generator) -> Floats:
    total = np.zeros(components.shape[1])
    for first, second in _pick_pairs(len(components), 3, rng):
        total += rng.choice([-1.0, 1.0]) * components[first] * components[second]
    return total


def _apply_rules(components: Floats, gate: Floats | None, rng: Generator) -> Floats:
    total = np.zeros(components.shape[1])
    for first, second in _pick_pairs(len(components), 3, rng):
        a, b = components[first] > rng.uniform(-0.3, 0.6), components[second] > rng.uniform(-0.3, 0.6)
        total += rng.uniform(0.6, 1.4) * (a & b if rng.random() < 0.6 else a | b)
    return total


def _take_ratios(components: Floats, gate: Floats | None, rng: Generator) -> Floats:
    """Sums of `a / (a + b)`: of one such ratio alone the order would be that of log a − log b, a sum."""
    total = np.zeros(components.shape[1])
    for first, second in _pick_pairs(len(components), 3, rng):
        a, b = np.exp(1.5 * components[first]), np.exp(1.5 * components[second])
        total += a / (a + b)
    return total


def _gate(components: Floats, gate: Floats | None, rng: Generator) -> Floats:
    """Two sets of weights, of which a feature of the query chooses one."""
    assert gate is not None
    weights = rng.standard_normal((2, len(components)))
    low, high = weights @ components
    chosen: Floats = np.where(gate > np.median(gate), high, low)
    return chosen


def _walk_tree(components: Floats, gate: Floats | None, rng: Generator) -> Floats:
    """A full binary tree of depth 4: a feature and a threshold in each node, a normal value in each leaf."""
    leaf = np.zeros(components.shape[1], dtype=np.int64)
    for depth in range(4):
        features = rng.integers(len(components), size=2**depth)
        thresholds = rng.uniform(-0.6, 0.6, 2**depth)
        leaf = 2 * leaf + (components[features[leaf], np.arange(len(leaf))] > thresholds[leaf])
    values: Floats = rng.standard_normal(16)[leaf]
    return values


def _do_several(components: Floats, gate: Floats | None, rng: Generator) -> Floats:
    parts = [_standardise(part(components, gate, rng)) for part in (_multiply, _apply_rules, _gate)]
    return np.sum(parts, axis=0)  # type: ignore[no-any-return]


INTERACTIONS: dict[str, Callable[[Floats, Floats | None, Generator], Floats]] = {
    "products": _multiply, "rules": _apply_rules, "ratios": _take_ratios, "gate": _gate,
    "tree": _walk_tree, "several": _do_several,
}  # fmt: skip


def _pick_pairs(count: int, pairs: int, rng: Generator) -> list[tuple[int, int]]:
    """Pairs of different features; the strong ones are not favoured."""
    return [(int(a), int(b)) for a, b in (rng.choice(count, 2, replace=False) for _ in range(pairs))]


# -- the draw ----------------------------------------------------------------------------------------------


def make_family(
    name: str,
    *,
    queries: int | None = None,
    mean_size: int | None = None,
    test_queries: int = TEST_QUERIES,
    random_state: int = 0,
) -> FamilyDraw:
    """Draw training data and test queries of a made family.

    The utility of a row is `u = signal + 0.5·richness of its query + noise·ε`, richness and ε standard
    normal, with `signal = √(1 − s)·Σ_j w_j f_j(c_j) + √s·I(c)`; c are the hidden components of the useful
    features (as in `make_ranking`), f_j their shapes, I the interaction, s its share (0 where the truth is
    additive). Σ and I have mean 0 and variance 1 over all rows drawn. Labels cut u where the training rows
    have the shares wanted; the same cuts hold for the test. Which features, weights and interactions there
    are depends on the family alone; the rows, and the constants of the columns, on `random_state` too. The
    first `test_queries` of 1,000 test queries are given: fewer change neither each other nor the training
    data. `queries` and `mean_size` take the place of the family's own number of training queries and mean
    list size; the truth stays the same, the rows do not.

    The same `random_state` gives the same bits in one environment.

    >>> drawn = make_family("dev01", test_queries=50)
    >>> drawn.test.n_queries, drawn.train.n_features == FAMILIES["dev01"].features
    (50, True)
    """
    check_name("family", name, FAMILIES)
    if isinstance(test_queries, bool) or not 1 <= test_queries <= TEST_QUERIES:
        raise BadInput(f"test_queries must be from 1 to {TEST_QUERIES:,}. Got {test_queries!r}.")
    family, state = FAMILIES[name], check_seed(random_state)
    if queries is not None:
        check_count("queries", queries, least=1)
        family = replace(family, queries=int(queries))
    if mean_size is not None:
        check_count("mean_size", mean_size, least=1)
        family = replace(family, mean_size=int(mean_size))
    plan = open_stream(family.seed, _PLAN)
    kinds, effects = _plan_kinds(family, plan), _plan_effects(family, plan)
    order = plan.permutation(family.features)
    interaction_seed = int(plan.integers(2**31))

    streams = _Streams(family.seed, state)
    sizes, strange = _draw_queries(family, streams)
    in_test = np.repeat(np.arange(len(sizes)) >= family.queries, sizes)
    columns = [_draw_column(kind, place, sizes, strange, streams) for place, kind in enumerate(kinds)]
    parts = np.stack(
        [
            effect.weight * _standardise(effect.act(_take_component(column)))
            for effect, column in zip(effects, columns, strict=False)
        ]
    )  # [useful, rows]
    parts /= parts.sum(axis=0).std()
    rest = np.zeros(len(in_test))
    if family.interaction is not None:
        components = np.stack([_take_component(column) for column in columns[: family.useful]])
        gate = columns[family.useful].values if kinds[family.useful] == "query_idf" else None
        made = INTERACTIONS[family.interaction](components, gate, np.random.default_rng(interaction_seed))
        rest = np.sqrt(family.interacting_share) * _standardise(made)
        parts *= np.sqrt(1.0 - family.interacting_share)
    signal: Floats = parts.sum(axis=0) + rest
    utility = signal + RICHNESS * np.repeat(streams.open(_QUERIES).standard_normal(len(sizes)), sizes)
    utility += family.noise * streams.open(_NOISE).standard_normal(len(signal))
    labels = _grade(family.labels, utility, sizes, ~in_test)
    X, names = _show(family, kinds, columns, in_test, streams)

    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    data = RankingData(
        X[:, order], labels, offsets, np.arange(1, len(sizes) + 1), tuple(names[place] for place in order)
    )
    last = offsets[family.queries + test_queries]
    chosen = slice(offsets[family.queries], last)
    return FamilyDraw(
        train=data[: family.queries],
        test=data[family.queries : family.queries + test_queries],
        additive=family.truth == "additive",
        signal=signal[chosen],
        effects={names[place]: part[chosen] for place, part in enumerate(parts)},
    )


@dataclass(frozen=True)
class _Streams:
    """A stream for each purpose, of one family and one draw."""

    seed: int
    state: int

    def open(self, *place: int) -> Generator:
        return open_stream(self.seed, 1, self.state, *place)


def _take_component(column: Column) -> Floats:
    assert column.component is not None
    return column.component


def _draw_queries(family: Family, streams: _Streams) -> tuple[Ints, Bools]:
    """List sizes of training and test queries, and the rows whose query is of the second kind."""
    total = family.queries + TEST_QUERIES
    sizes = draw_sizes(streams.open(_SIZES), total, family.mean_size, LONGEST * family.mean_size)
    strange = np.zeros(total, dtype=np.bool_)
    if family.drift == "mix":
        share = np.where(np.arange(total) < family.queries, STRANGER["train"], STRANGER["test"])
        strange = streams.open(_KINDS).random(total) < share
    return sizes, np.repeat(strange, sizes)


def _draw_column(kind: str, place: int, sizes: Ints, strange: Bools, streams: _Streams) -> Column:
    """One column; in queries of the second kind its rows stand higher, if it is one in two.

    There a row takes the larger of two drawn components, with the value that belongs to it: what a value
    means is the same in both kinds, and an additive truth stays one.
    """
    rng = streams.open(_COLUMNS, place)
    draw = _draw_sparse_count if kind == "sparse_count" else KINDS[kind].draw
    column = draw(rng, sizes)
    if column.component is None or not strange.any() or place % 2:
        return column
    rows = np.arange(len(strange))
    other = rng.integers(len(rows), size=len(rows))
    higher = strange & (column.component[other] > column.component)
    taken = np.where(higher, other, rows)
    return Column(column.values[taken], column.component[taken])


def _grade(labels: str, utility: Floats, sizes: Ints, in_train: Bools) -> Floats:
    """Labels `[rows]` of the kind wanted."""
    if labels in SHARES:
        cuts = np.quantile(utility[in_train], np.cumsum(SHARES[labels])[:-1])
        return np.searchsorted(cuts, utility, side="right").astype(np.float64)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-utility, query))
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.empty(len(utility), dtype=np.int64)  # 0 for the best row of a query
    place[order] = np.arange(len(utility)) - starts
    shares = (0.0,) if labels == "click" else TOP_SHARES
    grades = np.zeros(len(utility))
    for share in shares:  # the best row is in every share, however short the list
        grades += place < np.repeat(np.maximum(np.rint(share * sizes), 1.0), sizes)
    return grades


def _show(
    family: Family, kinds: Sequence[str], columns: Sequence[Column], in_test: Bools, streams: _Streams
) -> tuple[Floats32, list[str]]:
    """What a ranker sees `[rows, features]`, and the names: copied, scaled, with values missing."""
    values = [column.values for column in columns]
    names = [f"{kind}_{place}" for place, kind in enumerate(kinds, 1)]
    first = len(kinds) - _count_copies(family, kinds)
    if family.drift == "scales":  # before copies are made: a duplicate stays one
        rng = streams.open(_SCALES)
        for place in range(0, first, 2):
            values[place] = np.where(in_test, rng.uniform(1.5, 3.0) * values[place], values[place])
    X = np.stack(values, axis=1).astype(np.float32)
    if family.missing:
        for place in range(0, first, 2):
            drop_some(X[:, place], family.missing, streams.open(_MISSING, place))
    for number, place in enumerate(range(first, len(kinds))):
        names[place] = f"{names[number]}_{family.copies}"
        X[:, place] = X[:, number]
        if family.copies == "correlated":
            noise = streams.open(_COPIES, place).standard_normal(len(in_test))
            X[:, place] = values[number] * np.exp(0.5 * noise)
    return X, names


def _count_copies(family: Family, kinds: Sequence[str]) -> int:
    """How many useful features have a copy, in the place of a useless one: half of these at the most."""
    useless = len(kinds) - family.useful - 1
    return 0 if family.copies is None else max(0, min(family.useful, useless // 2))
