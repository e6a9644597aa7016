"""Taking a feature's values away in a seeded share of events or rows, and the coverage that is left.

The *unit* is what is counted and what goes dark together. An **event** is one search, all rows of a query:
it is covered if any of its rows has the feature, and masking it takes the feature from every row. A **row**
is one item of one search.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput, Bools, Floats, Ints, UnknownName, option, wilson_interval
from placings.data import COVERAGE_RULES, Matrix, RankingData
from placings.metrics import count_by_query

UNITS = ("event", "row")
CANDIDATES = ("covered", "all")
GOLDEN = 0.6180339887498949  # its multiples, without their whole parts, spread evenly over [0, 1)
TEST, TRAIN, VALID = range(3)  # each part of the data draws its masks from a stream of its own

ROW_LIBRARIES = ("sklearn", "lightgbm", "xgboost", "catboost")  # their estimators treat each row by itself

Rule = str | float


def find_covered(values: AnyArray, rule: Rule = "non_zero") -> Bools:
    """Which of a feature's values count as there, `[rows]`: by the rule, and never NaN.

    "non_zero": not 0; "positive": above 0; "non_null": any number; "mean", "median": above that of the values
    that are there; a number t: above t.

    >>> find_covered(np.array([0.0, -2.0, 3.0, np.nan]))
    array([False,  True,  True, False])
    >>> find_covered(np.array([0.0, -2.0, 3.0, np.nan]), "positive")
    array([False, False,  True, False])
    """
    there = ~np.isnan(values)
    border = find_border(values, rule)
    if border is not None:
        with np.errstate(invalid="ignore"):
            return np.asarray(there & (values.astype(np.float64) > border))
    return np.asarray(there & (values != 0)) if rule == "non_zero" else there


def find_border(values: AnyArray, rule: Rule) -> float | None:
    """What a value must lie above to be covered; None for the rules that are not comparisons."""
    if isinstance(rule, str):
        if rule not in COVERAGE_RULES:
            raise UnknownName("coverage rule", rule, COVERAGE_RULES)
        if rule in ("non_zero", "non_null"):
            return None
        if rule == "positive":
            return 0.0
        known = values[~np.isnan(values)].astype(np.float64)
        if not len(known):
            return 0.0
        return float(known.mean() if rule == "mean" else np.median(known))
    if isinstance(rule, bool) or not isinstance(rule, int | float | np.number) or np.isnan(rule):
        raise BadInput(f"rule must be a number or one of {', '.join(COVERAGE_RULES)}. Got {rule!r}.")
    return float(rule)


def check_value(value: Any, rule: Rule) -> float:
    """What stands in the place of a value that was taken away: a number that the rule does not count."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or np.isinf(value):
        raise BadInput(f"value must be 0, NaN or another finite number. Got {value!r}.")
    number = float(value)
    if rule in ("mean", "median"):
        return number  # depends on the data; coverage before and after is measured and shown
    if bool(find_covered(np.array([number]), rule)[0]):
        raise BadInput(
            f"value {number:g} counts as covered by the rule {rule!r}, so nothing would go dark. "
            f"Pass {option('value', value=np.nan)}, or another rule."
        )
    return number


@dataclass(frozen=True, eq=False)
class Units:
    """The events or rows of some data: how many, and the unit of each row `[rows]`."""

    kind: str
    count: int
    of_row: Ints
    data: RankingData

    def cover(self, values: AnyArray, rule: Rule = "non_zero") -> Bools:
        """Which units have the feature `[units]`: an event, if any of its rows has."""
        rows = find_covered(values, rule)
        if self.kind == "row":
            return rows
        return np.asarray(count_by_query(rows, self.data.offsets) > 0)

    def spread(self, units: Ints) -> Bools:
        """The rows of these units, as a mask `[rows]`."""
        chosen = np.zeros(self.count, dtype=np.bool_)
        chosen[units] = True
        return np.asarray(chosen[self.of_row])


def count_units(data: RankingData, unit: str = "event") -> Units:
    """The units of data: its queries ("event") or its rows ("row")."""
    if unit not in UNITS:
        raise UnknownName("unit", str(unit), UNITS)
    if unit == "row":
        return Units(unit, data.n_rows, np.arange(data.n_rows), data)
    return Units(unit, data.n_queries, data.query_index, data)


def take_column(X: Matrix, place: int) -> AnyArray:
    """One feature as a dense vector `[rows]`."""
    column: Any = X[:, [place]]
    return np.array(column if isinstance(column, np.ndarray) else column.toarray()).ravel()


def darken(data: RankingData, dark: Mapping[str, Bools], value: float = 0.0) -> RankingData:
    """The data with `value` in place of each named feature, in the rows marked `[rows]`; the given stay.

    >>> data = RankingData.from_arrays([[1.0, 5.0], [2.0, 6.0]], [0, 1], [1, 1])
    >>> darken(data, {"f2": np.array([True, False])}).X.tolist()
    [[1.0, 0.0], [2.0, 6.0]]
    """
    places = {data._place(name): rows for name, rows in dark.items()}
    if isinstance(data.X, np.ndarray):
        X = data.X.copy()
        for place, rows in places.items():
            X[rows, place] = value
        return data.replace(X=X)
    stored = data.X.tocoo()
    lost = np.zeros(len(stored.data), dtype=np.bool_)
    rows_added, columns_added = [], []
    for place, rows in places.items():
        lost |= (stored.col == place) & rows[stored.row]
        if value != 0.0:
            rows_added.append(np.flatnonzero(rows))
            columns_added.append(np.full(int(rows.sum()), place))
    row = np.concatenate([stored.row[~lost], *rows_added])
    column = np.concatenate([stored.col[~lost], *columns_added])
    filled = np.full(len(row) - int((~lost).sum()), value, dtype=np.float32)
    values = np.concatenate([stored.data[~lost], filled])
    made: Any = type(data.X)
    return data.replace(X=made((values, (row, column)), shape=data.X.shape, dtype=np.float32))


@dataclass(frozen=True, eq=False)
class DarkOrder:
    """One draw for one feature: the units in the order in which they go dark.

    A share s of n units is the first `⌊s·n + u⌋` of them, with u from [0, 1), spread evenly over the draws:
    on average s·n, also of a few units. What is dark at 5 % is dark at 25 % too.
    """

    units: Ints
    extra: float

    def first(self, share: float) -> Ints:
        """The units that are dark when this share is."""
        return self.units[: int(np.floor(share * len(self.units) + self.extra))]


def draw_order(candidates: Bools, seed: int, feature: str, draw: int, part: int = TEST) -> DarkOrder:
    """The order of one draw, from the seed, the feature's name, the draw and the part of the data."""
    name = zlib.crc32(feature.encode())
    begin = np.random.default_rng([seed, name, part]).random()
    order = np.random.default_rng([seed, name, part, draw]).permutation(np.flatnonzero(candidates))
    return DarkOrder(order, float((begin + draw * GOLDEN) % 1.0))


def choose_candidates(covered: Bools, of: str) -> Bools:
    """The units that may be drawn: those that have the feature, or all."""
    if of not in CANDIDATES:
        raise UnknownName("share's whole (of=)", str(of), CANDIDATES)
    return covered if of == "covered" else np.ones_like(covered)


def check_drops(drops: Any) -> tuple[float, ...]:
    """Shares above 0 and up to 1, at least one, each once."""
    try:
        given = [drops] if isinstance(drops, int | float) else list(drops)
        found = tuple(float(drop) for drop in given)
    except (TypeError, ValueError):
        raise BadInput(f"drops must be shares such as (0.05, 0.25, 0.5). Got {drops!r}.") from None
    if not found or not all(0.0 < drop <= 1.0 for drop in found) or len(set(found)) != len(found):
        raise BadInput(
            f"drops must be different shares above 0 and up to 1, such as 0.05 for 5 %. Got {drops!r}."
        )
    return found


# -- segments ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Segment:
    """The units that share the values of the segment columns; `key` is () where nothing is split."""

    key: tuple[Any, ...]
    chosen: Bools


def split_units(units: Units, by: Sequence[str]) -> list[Segment]:
    """The segments of the units, in the order of their values; one for all of them without `by`.

    A segment of events must be the same in all rows of each event.
    """
    from placings.data import spread_segment

    data = units.data
    columns = []
    for name in by:
        if name not in data.segments:
            raise UnknownName("segment of the reference", name, data.segments)
        column = spread_segment(name, data) if units.kind == "event" else data.segments[name]
        columns.append(column.tolist())
    if not columns:
        return [Segment((), np.ones(units.count, dtype=np.bool_))]
    keys = list(zip(*columns, strict=True))
    places = {key: place for place, key in enumerate(sorted(set(keys), key=lambda key: tuple(map(str, key))))}
    number = np.array([places[key] for key in keys], dtype=np.int64)
    return [Segment(key, number == place) for key, place in places.items()]


def summarise_coverage(
    data: RankingData,
    features: Sequence[str] | None = None,
    *,
    by: str | Sequence[str] | None = None,
    unit: str = "event",
    rule: Rule = "non_zero",
) -> Any:
    """The coverage frame of ranking data: feature, the columns of `by`, coverage, low, high, events, covered.

    `coverage` is the share of events (or rows) that have the feature, with Wilson's 95 % interval; rows of
    one search are not independent, so with `unit="row"` the interval takes events as its size. Needs pandas.

    >>> data = RankingData.from_arrays([[0.0], [2.0], [0.0]], [0, 1, 1], [1, 1, 2])
    >>> summarise_coverage(data)[["feature", "coverage", "events"]].to_dict("list")
    {'feature': ['f1'], 'coverage': [0.5], 'events': [2]}
    """
    from placings.core import need_library

    pandas = need_library("pandas", "a coverage frame")
    names = list(data.feature_names if features is None else features)
    columns = name_segments(by)
    units = count_units(data, unit)
    segments = split_units(units, columns)
    rows = []
    for name in names:
        covered = units.cover(take_column(data.X, data._place(name)), rule)
        for segment in segments:
            count, there = int(segment.chosen.sum()), int((covered & segment.chosen).sum())
            share = there / count if count else float("nan")
            size = count if unit == "event" else count_events(data, segment.chosen)
            low, high = (float(end) for end in wilson_interval(share * size, size))
            rows.append((name, *segment.key, share, low, high, count, there))
    header = ["feature", *columns, "coverage", "low", "high", "events", "covered"]
    return pandas.DataFrame(rows, columns=header)


def count_events(data: RankingData, rows: Bools) -> int:
    """How many queries have at least one of these rows."""
    return int((count_by_query(rows, data.offsets) > 0).sum())


def name_segments(by: str | Sequence[str] | None) -> list[str]:
    """The segment columns as a list."""
    return [] if by is None else [by] if isinstance(by, str) else list(by)


# -- scoring under a mask ---------------------------------------------------------------------------


def score_each(
    predict: Callable[[RankingData], Floats],
    data: RankingData,
    feature: str,
    masks: Iterable[Bools],
    value: float,
    *,
    reach: str,
) -> Iterator[Floats]:
    """Scores under each mask `[rows]` of one feature; `reach` (see `find_reach`) says what they depend on.

    Two passes go a long way: one over the data as they are and one with the feature dark in every row. Where
    a score hangs on its "row", a mask picks from the two. Where it hangs on the "list", the mask picks for
    every list that is wholly dark or wholly untouched, and lists that are dark in part are scored again.
    Where it may hang on all "data", every mask is scored anew.
    """
    if reach == "data":
        yield from (predict(darken(data, {feature: mask}, value)) for mask in masks)
        return
    whole = predict(data)
    dark = predict(darken(data, {feature: np.ones(data.n_rows, dtype=np.bool_)}, value))
    column = take_column(data.X, data._place(feature))
    changes = ~np.isnan(column) if np.isnan(value) else column != value  # a mask does nothing to other rows
    can_change = count_by_query(changes, data.offsets)
    for mask in masks:
        if reach == "row":
            yield np.where(mask if whole.ndim == 1 else mask[:, None], dark, whole)
            continue
        changed = count_by_query(changes & mask, data.offsets)
        scores = np.where((changed > 0)[data.query_index], dark, whole)
        in_part = (changed > 0) & (changed < can_change)  # [queries]
        if in_part.any():
            rows = in_part[data.query_index]
            scores[rows] = predict(darken(data[np.flatnonzero(in_part)], {feature: mask[rows]}, value))
        yield scores


def find_reach(ranker: Any) -> str:
    """What a row's score depends on: that "row" alone, the rows of its "list", or all the "data".

    A ranker of this library knows (`looks_at_list`). Estimators of scikit-learn and of the tree libraries
    score rows one by one, pipelines of them too. Of any other object nothing is known: "data".
    """
    from placings.rankers import Ranker

    if isinstance(ranker, Ranker):
        return "list" if ranker.looks_at_list else "row"
    return "row" if _scores_rows(ranker) else "data"


def _scores_rows(estimator: Any) -> bool:
    """Whether an estimator, and each one inside it, is known to treat every row by itself."""
    from sklearn.base import BaseEstimator
    from sklearn.preprocessing import FunctionTransformer

    from placings.rankers import Ranker
    from placings.transforms import Transform

    if not isinstance(estimator, BaseEstimator):
        return False
    inside = [each for each in estimator.get_params(deep=True).values() if isinstance(each, BaseEstimator)]
    for each in (estimator, *inside):
        if isinstance(each, Ranker | Transform):  # not fitted, as in a ColumnTransformer: it may look
            if getattr(each, "looks_at_list" if isinstance(each, Ranker) else "_per_query", True):
                return False
        elif type(each).__module__.partition(".")[0] not in ROW_LIBRARIES or (
            isinstance(each, FunctionTransformer) and each.func is not None
        ):
            return False
    return True
