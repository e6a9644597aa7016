"""Where a ranker is good and where it is not: queries in named groups, each with its count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from placings.core import (
    FEW,
    AnyArray,
    BadInput,
    Bools,
    Cell,
    Grid,
    Ints,
    UnknownName,
    find_missing,
    format_difference,
    format_interval,
    format_mean,
    format_number,
    render_grid,
)
from placings.data import RankingData, spread_segment
from placings.metrics import count_by_query

SMALL = 20  # a slice with fewer scored queries is flagged: its interval is a guess about a guess
BANDS = 4
DISTINCT = 6  # so many different numbers are groups by themselves; more of them are cut into bands
MOST_SLICES = 40  # rows of a printed table; to_dict has them all
MISSING = "missing"

Slicing: TypeAlias = "str | Callable[[RankingData], Any] | Mapping[str, Any]"
Slicings: TypeAlias = "Slicing | Sequence[Slicing] | None"


@dataclass(frozen=True, eq=False)
class QueryGroup:
    """Some queries: `by` says by what, `value` which ones; `chosen` is `[queries]`."""

    by: str
    value: str
    chosen: Bools


@dataclass(frozen=True)
class Slice:
    """How a ranker does on one group of queries, in one metric."""

    by: str
    value: str
    metric: str
    queries: int
    scored: int
    mean: float
    interval: tuple[float, float]
    method: str = ""
    difference: float = float("nan")  # to the baseline, over queries scored by both
    difference_interval: tuple[float, float] = (float("nan"), float("nan"))

    @property
    def small(self) -> bool:
        """Fewer than 20 scored queries: look, but do not conclude."""
        return self.scored < SMALL


def _list_size(data: RankingData) -> Ints:
    return data.sizes


def _has_relevant(data: RankingData) -> Bools:
    return count_by_query(data.y > 0.0, data.offsets) > 0


def _relevant_items(data: RankingData) -> Ints:
    return count_by_query(data.y > 0.0, data.offsets)


FREQUENCY = "frequency"  # head, torso and tail
TEXTS = ("query", "query_text", "text", "keyword")  # segments that say what was asked


READY: dict[str, Callable[[RankingData], AnyArray]] = {
    "list_size": _list_size,
    "has_relevant": _has_relevant,
    "relevant_items": _relevant_items,
}


def find_groups(slices: Slicings, folds: Sequence[RankingData]) -> list[QueryGroup]:
    """The groups that `slices` asks for, over the queries of all folds one after the other.

    A slicing is
    - the name of a segment column, whose value must be the same in all rows of a query;
    - one of `READY`: "list_size", "has_relevant", "relevant_items" (a segment of that name comes first);
    - "frequency": head, torso and tail, by how often the text in the segment `query` is asked;
    - a function of a whole RankingData that gives one value for each of its queries;
    - a mapping from a name to an array with one value for each query of all folds;
    or a list of such. Text and booleans are groups by themselves; more than six different numbers are cut
    into four bands of about equally many queries, named by the smallest and largest value in them. None
    and NaN are a group called "missing". Groups come in the order of their values.

    >>> data = RankingData.from_arrays([[0.0]] * 5, [0, 1, 0, 0, 0], [1, 1, 2, 2, 3])
    >>> [(group.by, group.value, int(group.chosen.sum())) for group in find_groups("list_size", [data])]
    [('list_size', '1', 1), ('list_size', '2', 2)]
    """
    if slices is None:
        return []
    asked = [slices] if isinstance(slices, str | Mapping) or callable(slices) else list(slices)
    groups: list[QueryGroup] = []
    for each in asked:
        for name, values in _resolve(each, folds):
            groups += _group_values(name, values)
    return groups


def _resolve(slicing: Any, folds: Sequence[RankingData]) -> list[tuple[str, AnyArray]]:
    queries = sum(len(fold) for fold in folds)
    if isinstance(slicing, Mapping):
        given = [(str(name), np.asarray(values)) for name, values in slicing.items()]
        for name, values in given:
            if values.shape != (queries,):
                raise BadInput(
                    f"the slices {name!r} must have one value for each of the {queries} queries. "
                    f"Got shape {values.shape}."
                )
        return given
    if slicing == FREQUENCY and not all(FREQUENCY in fold.segments for fold in folds):
        return [(FREQUENCY, part_frequencies(_take_texts(folds)))]
    if isinstance(slicing, str):
        return [(slicing, np.concatenate([_take_named(slicing, fold) for fold in folds]))]
    if not callable(slicing):
        raise BadInput(
            "slices must be a segment's name, one of "
            f"{', '.join([*READY, FREQUENCY])}, a function or a mapping. Got {slicing!r}."
        )
    name = getattr(slicing, "__name__", "slices")
    name = "function" if name == "<lambda>" else name
    parts = [np.asarray(slicing(fold)) for fold in folds]
    for part, fold in zip(parts, folds, strict=True):
        if part.shape != (len(fold),):
            raise BadInput(
                f"the function {name!r} must give one value for each of the {len(fold)} queries. "
                f"Got shape {part.shape}."
            )
    return [(name, np.concatenate(parts))]


def _take_named(name: str, data: RankingData) -> AnyArray:
    if name in data.segments:
        return spread_segment(name, data)
    if name in READY:
        return READY[name](data)
    raise UnknownName("segment or slicing", name, [*data.segments, *READY, FREQUENCY])


def _take_texts(folds: Sequence[RankingData]) -> list[str]:
    """What was asked, of each query of all folds."""
    known = [name for name in TEXTS if all(name in fold.segments for fold in folds)]
    if not known:
        there = ", ".join(dict.fromkeys(name for fold in folds for name in fold.segments)) or "none"
        raise BadInput(
            f"{FREQUENCY} counts how often each text is asked. Got data without a segment 'query' (segments: "
            f"{there}). placings log features keeps it; in a table it is a column of text."
        )
    return [str(text) for fold in folds for text in spread_segment(known[0], fold).tolist()]


def part_frequencies(texts: Sequence[str]) -> AnyArray:
    """Head, torso or tail for each query, with how often its texts are asked.

    The texts that are asked most often and together make up the first third of the queries are the head,
    those of the next third the torso, the rest the tail. Texts that are asked equally often stay together,
    and what is asked once is tail. Capitals and spaces do not count.

    >>> part_frequencies(["lamp"] * 4 + ["Rug ", "rug", "sofa", "vase"]).tolist()[::2]
    ['head (asked 4 times)', 'head (asked 4 times)', 'torso (asked twice)', 'tail (asked once)']
    """
    folded = [" ".join(text.lower().split()) for text in texts]
    often = Counter(folded)
    counts = np.array([often[text] for text in folded], dtype=np.int64)
    levels, sizes = np.unique(counts, return_counts=True)
    more = (len(folded) - np.cumsum(sizes)) / max(len(folded), 1)  # the share that is asked more often
    names = np.where(more < 1 / 3, "head", np.where(more < 2 / 3, "torso", "tail")).astype(object)
    names[levels == 1] = "tail"
    said = {}
    for name in ("head", "torso", "tail"):
        its = levels[names == name].tolist()
        if its:
            said[name] = f"{name} (asked {_say_times(its[0], its[-1])})"
    by_level = {level: said[name] for level, name in zip(levels.tolist(), names.tolist(), strict=True)}
    return np.array([by_level[count] for count in counts.tolist()], dtype=object)


def _say_times(low: int, high: int) -> str:
    words = {(1, 1): "once", (2, 2): "twice", (1, 2): "once or twice"}
    return words.get((low, high), f"{high} times" if low == high else f"{low} to {high} times")


def _group_values(by: str, values: AnyArray) -> list[QueryGroup]:
    missing = find_missing(values)
    known = values[~missing]
    kinds = {type(value) for value in known.tolist()} if known.dtype.kind == "O" else set()
    if kinds and kinds <= {int, float}:
        known = known.astype(np.float64)
    elif kinds == {bool}:
        known = known.astype(np.bool_)
    if known.dtype.kind in "iuf" and len(np.unique(known)) > DISTINCT:
        codes, names = _cut_bands(known)
    else:
        distinct, codes = np.unique(
            known if known.dtype.kind != "O" else known.astype(str), return_inverse=True
        )
        names = [_name_value(value) for value in distinct.tolist()]
    groups = []
    for code, name in enumerate(names):
        chosen = np.zeros(len(values), dtype=np.bool_)
        chosen[np.flatnonzero(~missing)[codes == code]] = True
        groups.append(QueryGroup(by, name, chosen))
    return [*groups, QueryGroup(by, MISSING, missing)] if missing.any() else groups


def _cut_bands(values: AnyArray) -> tuple[Ints, list[str]]:
    """Quartile bands; a value stands in one band only, so few distinct values give fewer bands."""
    edges = np.unique(np.quantile(values, np.arange(1, BANDS) / BANDS, method="lower"))
    codes = np.searchsorted(edges, values, side="left")
    _, codes = np.unique(codes, return_inverse=True)
    names = []
    for code in range(int(codes.max()) + 1):
        low, high = values[codes == code].min(), values[codes == code].max()
        names.append(_name_value(low) if low == high else f"{_name_value(low)} to {_name_value(high)}")
    return codes.astype(np.int64), names


def _name_value(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return format_number(float(value), 6) if isinstance(value, float | np.floating) else str(value)


def order_worst_first(slices: Sequence[Slice], first_metric: str, lower: bool) -> list[Slice]:
    """By slicing, then method, then the first metric: its difference to the baseline, or else its mean.

    All metrics of a group stay together; a group whose value is not known comes last.
    """
    order = {by: place for place, by in enumerate(dict.fromkeys(each.by for each in slices))}
    methods = {name: place for place, name in enumerate(dict.fromkeys(each.method for each in slices))}
    sign = -1.0 if lower else 1.0
    first = [each for each in slices if each.metric == first_metric]
    compared = {each.method for each in first if not np.isnan(each.difference)}
    key: dict[tuple[str, str, str], float] = {}
    for each in first:
        known = each.difference if each.method in compared else each.mean
        key[each.by, each.method, each.value] = np.inf if np.isnan(known) else sign * known
    return sorted(
        slices,
        key=lambda each: (order[each.by], methods[each.method], key[each.by, each.method, each.value]),
    )


def describe_slice(each: Slice) -> dict[str, Any]:
    """A slice as plain values."""
    facts: dict[str, Any] = {"by": each.by, "value": each.value, "metric": each.metric}
    if each.method:
        facts["method"] = each.method
    facts |= {"queries": each.queries, "scored": each.scored, "small": each.small, "mean": each.mean}
    facts |= {"low": each.interval[0], "high": each.interval[1]}
    if each.method:
        facts["difference"] = each.difference
        facts["difference_low"], facts["difference_high"] = each.difference_interval
    return facts


def render_slices(slices: Sequence[Slice], rule: str, format: str, *, baseline: str | None = None) -> str:
    """One row for each group (and method), with mean and interval, or the difference to the baseline."""
    metrics = list(dict.fromkeys(each.metric for each in slices))
    rows: dict[tuple[str, str, str], list[Slice]] = {}
    for each in slices:
        rows.setdefault((each.by, each.value, each.method), []).append(each)
    methods = any(each.method for each in slices)
    header = ["slice", *(["method"] if methods else []), "queries", "scored"]
    for name in metrics:
        header += [name, "interval" if baseline is None else f"− {baseline}"]
    drawn = []
    for (by, value, method), parts in list(rows.items())[:MOST_SLICES]:
        cells = [Cell(f"{by}: {value}"), *([Cell(method)] if methods else []), Cell(str(parts[0].queries))]
        cells.append(Cell(str(parts[0].scored), "!" if parts[0].small else ""))
        for part in parts:
            cells += [Cell(format_mean(part.mean)), Cell(_show_second(part, baseline))]
        drawn.append(tuple(cells))
    notes = ["The worst first, by the first metric; intervals are not corrected for looking at many slices."]
    if any(each.scored <= FEW and not np.isnan(each.interval[0]) for each in slices):
        notes.append(f"Intervals of slices with {FEW} or fewer units that are resampled: Student's t.")
    if any(each.small for each in slices):
        notes.append(f"! fewer than {SMALL} scored queries: look, but do not conclude.")
    if len(rows) > MOST_SLICES:
        notes.append(f"{MOST_SLICES} of {len(rows)} rows are shown; to_dict has them all.")
    return render_grid(Grid(tuple(header), tuple(drawn), (*notes, rule), left=1 + methods), format)


def _show_second(part: Slice, baseline: str | None) -> str:
    if baseline is None:
        return format_interval(*part.interval)
    if np.isnan(part.difference):
        return "-"
    return f"{format_difference(part.difference)} {format_interval(*part.difference_interval, signed=True)}"
