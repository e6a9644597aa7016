"""A log's lists beside the order that a candidate would have given them, and with which probability they
came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    AnyArray,
    BadInput,
    Bools,
    Floats,
    Ints,
    as_scores,
    need_library,
    number_clusters,
)
from placings.logs import PAST, PROPENSITY, ClickLog, add_past_clicks, look_up_clicks, read_swaps
from placings.rerank.reranker import Reranker, see_as_model
from placings.rerank.search_kinds import describe_searches

if TYPE_CHECKING:
    import pandas as pd

SHOWN_PROBABILITY, LIST_PROBABILITY, SWAPPED = "shown_probability", "list_probability", "swapped"
PARTITION = ("length", "location")  # kinds of searches, where nothing else is asked for
CROSS = " × "
SCORES = "scores of the candidate"  # a column of our own, gone before anyone sees it
SELDOM = 1e-3  # looks at a rank, relative to the first: no bound of a curve is taken to be lower


@dataclass(frozen=True, eq=False)
class LoggedLists:
    """Lists as they were shown, row by row from the top of each, and where a candidate puts each item.

    `position` and `new_position` are `[rows]`, from 1; `clicks` are 0 or 1; `clusters` and `kinds` are
    `[lists]`. `probability` `[rows]` is that of the item's place, NaN where it was not written down, None in
    a log without any exploration; `list_probability` `[lists]` that of the whole list, likewise.
    `new_probability` `[rows]` is that of the item's new place, 0 where it could not be, None where the log
    does not tell how it was drawn. `left_out` counts the searches that the candidate had learned from.
    """

    rows: pd.DataFrame
    offsets: Ints
    position: Floats
    new_position: Floats
    clicks: Floats
    clusters: Ints
    kinds: AnyArray | None
    probability: Floats | None
    list_probability: Floats | None
    new_probability: Floats | None
    left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def owner(self) -> Ints:
        """The list of each row."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def stays(self) -> Bools:
        """Whether the candidate leaves an item where it was shown `[rows]`."""
        same: Bools = self.position == self.new_position
        return same

    @property
    def same(self) -> Bools:
        """Whether the candidate's list is the one that was shown `[lists]`."""
        moved = np.bincount(self.owner, weights=~self.stays, minlength=len(self.offsets) - 1)
        return np.asarray(moved == 0.0)


def read_lists(
    candidate: Reranker | ArrayLike, log: ClickLog | pd.DataFrame, by: str | Sequence[str] | None = None
) -> LoggedLists:
    """The log's lists with the candidate's order; refuses a log that does not say what stood where."""
    if isinstance(candidate, Reranker):
        candidate._need_fit()
        given = _read_rows(log)
        kept, left_out, notes = leave_out_learned(candidate, given)
        frame = given[kept]
    else:
        frame, left_out, notes = _read_rows(log, as_scores(candidate)), 0, ()
    shown = _need_numbers(frame, "shown_position" if "shown_position" in frame else "position")
    labels = _need_numbers(frame, "label")
    codes = number_clusters(frame["search_id"].to_numpy())
    order = np.lexsort((np.arange(len(frame)), shown, codes))
    frame, shown, codes = frame.iloc[order].reset_index(drop=True), shown[order], codes[order]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.int64)
    if isinstance(candidate, Reranker):
        new = _order_by_model(candidate, frame, codes)
    else:
        scores = frame.pop(SCORES).to_numpy(dtype=np.float64)
        new = np.lexsort((np.arange(len(frame)), -scores, codes))
    place = np.empty(len(frame))
    place[new] = shown  # the places that were shown, dealt out in the new order
    first = frame.iloc[offsets[:-1]]
    probability = _read_probability(frame, SHOWN_PROBABILITY)
    lists = _find_list_probability(frame, first, probability, shown, offsets)
    return LoggedLists(
        frame, offsets, shown, place, (labels[order] > 0.0).astype(np.float64), find_clusters(first),
        name_kinds(frame, offsets, by), probability, lists,
        _find_new_probability(frame, first, probability, shown, place, offsets), left_out, notes,
    )  # fmt: skip


def _read_rows(log: ClickLog | pd.DataFrame, scores: Floats | None = None) -> pd.DataFrame:
    """The rows in the order of a click log; scores, in the order of what was given, travel along."""
    rows = log.rows if isinstance(log, ClickLog) else need_library("pandas", "a click log").DataFrame(log)
    if not len(rows):
        raise BadInput("a candidate is judged on lists that people saw. Got a log without rows.")
    if scores is not None:
        if len(scores) != len(rows):
            raise BadInput(
                f"a candidate's scores must be one for each of the log's {len(rows)} rows. Got {len(scores)}."
            )
        rows = rows.assign(**{SCORES: scores})
    return rows if isinstance(log, ClickLog) else ClickLog(rows).rows


# -- the candidate -----------------------------------------------------------------------------------------


def leave_out_learned(candidate: Reranker, rows: pd.DataFrame) -> tuple[Bools, int, tuple[str, ...]]:
    """Which rows a candidate has not learned from, how many searches go, and what cannot be told."""
    everything = np.ones(len(rows), dtype=np.bool_)
    until = candidate.clicks_until_
    if until is None or "time" not in rows:
        note = "It is not known whether the candidate has learned from this log; give one that it has not."
        return everything, 0, (note,)
    newer = rows["time"].to_numpy().astype("datetime64[us]").astype(np.int64) > until
    kept = newer | rows["time"].isna().to_numpy()
    gone = int(rows.loc[~kept, "search_id"].nunique())
    if not kept.any():
        last = np.datetime64(until, "us")
        raise BadInput(
            f"the candidate knows clicks up to {last}, so it has learned from all {gone:,} searches of this "
            "log. Judge it on a later one."
        )
    return np.asarray(kept), gone, ()


def _order_by_model(candidate: Reranker, frame: pd.DataFrame, codes: Ints) -> Ints:
    """The rows in the candidate's order, list by list: `pool` hits by score, the rest as the engine had
    it."""
    seen = see_as_model(frame)
    engine = seen["position"].to_numpy(dtype=np.float64)
    head = engine <= candidate.pool
    scores = np.zeros(len(frame))
    known = _add_past(candidate, frame)
    scores[head] = candidate.score(known[head].reset_index(drop=True))
    return np.lexsort((engine, -scores, ~head, codes))


def _add_past(candidate: Reranker, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with `past_clicks` as a service would have known them: the candidate's own, and those since.

    What a service wrote down stays.
    """
    if PAST not in candidate.features_.columns or "time" not in rows:
        return rows
    plain = rows.drop(columns=PAST, errors="ignore")
    since = add_past_clicks(plain, plain)[PAST].to_numpy(dtype=np.float64)
    own = look_up_clicks(rows["item_id"].astype(str).tolist(), candidate.clicks_)
    counted = since + own
    if PAST in rows:
        served = rows[PAST].to_numpy(dtype=np.float64)
        counted = np.where(np.isnan(served), counted, served)
    return rows.assign(**{PAST: counted})


# -- kinds and clusters ------------------------------------------------------------------------------------


def name_kinds(frame: Any, offsets: Ints, by: str | Sequence[str] | None) -> AnyArray | None:
    """The kind of each list, one for each: the values of all dimensions together; None without dimensions.

    `by` names dimensions of `describe_searches` or columns of the log; None takes length × location, as far
    as the log has them.
    """
    told = describe_searches(frame, offsets)
    names = [name for name in PARTITION if name in told] if by is None else _list_names(by)
    columns = []
    for name in names:
        if name in told:
            columns.append([str(value) for value in told[name].tolist()])
        elif name in frame:
            values = frame[name].iloc[offsets[:-1]]
            told_by = zip(values.tolist(), values.isna().tolist(), strict=True)
            columns.append(["unknown" if gone else str(value) for value, gone in told_by])
        else:
            raise BadInput(
                f"by must name kinds of searches ({', '.join(told) or 'this log has none'}) or columns of "
                f"the log. Got {name!r}."
            )
    if not columns:
        return None
    return np.array([CROSS.join(each) for each in zip(*columns, strict=True)], dtype=object)


def find_clusters(first: pd.DataFrame) -> Ints:
    """Who made each search: the user, else the session, else nobody known: a search by itself."""
    ids: list[object] = [None] * len(first)
    for name in ("session_id", "user_id"):
        if name in first:
            known = first[name].notna().tolist()
            ids = [
                (name, value) if there else before
                for before, value, there in zip(ids, first[name].tolist(), known, strict=True)
            ]
    keys = [(place,) if each is None else each for place, each in enumerate(ids)]
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


# -- probabilities -----------------------------------------------------------------------------------------


def _read_probability(frame: pd.DataFrame, name: str) -> Floats | None:
    """The column, if something in it is below 1: else there was no exploration."""
    if name not in frame:
        return None
    values = frame[name].to_numpy(dtype=np.float64)
    known = ~np.isnan(values)
    if (wrong := known & ~((values > 0.0) & (values <= 1.0))).any():
        raise BadInput(
            f"{name} must be above 0 and at most 1. Got {values[wrong][0]:g}. A place that was shown had a "
            "chance."
        )
    return values if (values[known] < 1.0).any() else None


def _find_list_probability(
    frame: pd.DataFrame, first: pd.DataFrame, probability: Floats | None, shown: Floats, offsets: Ints
) -> Floats | None:
    """The probability of each whole list: as the log says it, or by the swaps.

    Of n pairs each is swapped with probability e, and a list without a swap has 1 − n·e.
    """
    if (told := _read_probability(frame, LIST_PROBABILITY)) is not None:
        return told[offsets[:-1]]
    if probability is None or SWAPPED not in frame:
        return None
    each, depth, reach = _find_swaps(first, probability, offsets)
    swapped = first[SWAPPED].fillna(0).to_numpy(dtype=np.float64) > 0
    pairs = reach * depth - reach * (reach + 1.0) / 2.0
    return np.where(swapped, each, 1.0 - pairs * each)


def _find_swaps(first: pd.DataFrame, probability: Floats, offsets: Ints) -> tuple[Floats, Floats, Floats]:
    """The probability of each swap of a list, how many ranks could be swapped, and how far apart at most.

    The probability is NaN where it is not known. The first item of a list without a swap has 1 − m·e, where m
    pairs hold it: as many as the reach.
    """
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    inside = np.bincount(owner, weights=probability < 1.0, minlength=len(sizes))
    swapped, _, told = read_swaps(first)
    depth = np.where(inside > 1.0, inside, 0.0)
    reach = np.minimum(told, np.maximum(depth - 1.0, 0.0))
    at = offsets[:-1] + np.clip(
        swapped - 1, 0, np.maximum(sizes - 1, 0)
    )  # the pair's upper item, or the first
    each = np.where(swapped > 0, probability[at], (1.0 - probability[at]) / np.maximum(reach, 1.0))
    unknown = np.bincount(owner, weights=np.isnan(probability), minlength=len(sizes)) > 0
    return np.where(unknown, np.nan, each), depth, reach


def _find_new_probability(
    frame: pd.DataFrame,
    first: pd.DataFrame,
    probability: Floats | None,
    shown: Floats,
    place: Floats,
    offsets: Ints,
) -> Floats | None:
    """With which probability swaps put each item where the candidate wants it; None where no log says how.

    Before a swap an item stood at its base. It may stand at another place within depth and reach with the
    probability e of one swap, and at its base with 1 − m·e, where m of the pairs hold it.
    """
    if probability is None or SWAPPED not in frame:
        return None
    sizes = np.diff(offsets)
    each, depth, reach = (np.repeat(values, sizes) for values in _find_swaps(first, probability, offsets))
    upper, lower, _ = read_swaps(frame)
    base = np.where(shown == upper, lower, np.where((shown == lower) & (upper > 0), upper, shown))
    holding = np.minimum(base - 1.0, reach) + np.minimum(depth - base, reach)
    holding = np.where(base <= depth, holding, 0.0)
    away = np.abs(place - base)
    moved = np.where((away <= reach) & (np.maximum(place, base) <= depth), each, 0.0)
    found: Floats = np.where(away == 0.0, 1.0 - holding * each, moved)
    return found


# -- how people look ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Looks:
    """The probability of a look at each rank, with its bounds, and the mistakes of an affine model.

    `misfit` is the sentence that says that clicks contradict a position model, where they do.
    """

    ranks: Ints
    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    mistakes: Floats | None = None
    rests_on: str = "a position model"
    misfit: str | None = None

    def list_curves(self) -> list[Floats]:
        """The curve, and its bounds where they are known; each divided by its largest value."""
        found = [self.values, *(each for each in (self.low, self.high) if each is not None)]
        return [each / each.max() for each in found]

    def read_at(self, curve: Floats, position: Floats) -> Floats:
        """A curve's values at positions; between ranks on a line of logarithms, beyond the last its value."""
        return np.exp(np.interp(position, self.ranks.astype(np.float64), np.log(curve)))

    def read_mistakes(self, position: Floats) -> Floats | None:
        """An affine model's mistakes at positions; None where there are none."""
        if self.mistakes is None:
            return None
        return np.interp(position, self.ranks.astype(np.float64), self.mistakes)

    def count_beyond(self, position: Floats) -> int:
        """How many positions lie below the last rank that is known."""
        return int((position > self.ranks[-1]).sum())


def read_looks(propensity: Any, rows: pd.DataFrame, position: Floats) -> Looks | None:
    """What is known of people's looks: a curve, its state, numbers from rank 1 on, or a column of the log."""
    if propensity is None:
        return _read_column(rows, PROPENSITY, position) if PROPENSITY in rows else None
    if isinstance(propensity, str):
        if propensity not in rows:
            raise BadInput(f"propensity must be a curve or a column of the log. Got {propensity!r}.")
        return _read_column(rows, propensity, position)
    if hasattr(propensity, "to_state") and not isinstance(propensity, Mapping):
        propensity = propensity.to_state()
    try:
        if isinstance(propensity, Mapping):
            return _read_state(propensity)
        values = np.asarray(propensity, dtype=np.float64)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"a propensity curve must hold numbers. Got {error}.") from None
    if values.ndim != 1:
        _refuse(values)
    return _check_looks(Looks(np.arange(1, len(values) + 1), values))


def _read_state(state: Mapping[str, Any]) -> Looks:
    if "ranks" not in state or "values" not in state:
        raise BadInput(
            f"a propensity curve must have ranks and values. Got {', '.join(map(str, state)) or 'nothing'}."
        )

    def read(name: str) -> Floats | None:
        told = state.get(name)
        return (
            None
            if told is None
            else np.array([np.nan if each is None else each for each in told], dtype=np.float64)
        )

    values = read("values")
    assert values is not None
    low, high = read("low"), read("high")
    if low is None or high is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        low = high = None
    else:
        low = np.maximum(low, SELDOM)  # a bound of 0 says that nothing is known of the rank
    trust = state.get("trust")
    mistakes = None if trust is None else np.asarray(trust["beta"], dtype=np.float64)
    rests_on = str(state.get("rests_on", "a position model"))
    misfit = state.get("misfit")
    told = str(misfit["sentence"]) if misfit and misfit.get("flagged") else None
    ranks = np.asarray(state["ranks"], dtype=np.int64)
    return _check_looks(Looks(ranks, values, low, high, mistakes, rests_on, told))


def _read_column(rows: pd.DataFrame, name: str, position: Floats) -> Looks:
    values = rows[name].to_numpy(dtype=np.float64)
    known = ~np.isnan(values)
    if not known.any():
        raise BadInput(
            f"the log's column {name} must hold how likely a look was. Got nothing but missing values."
        )
    ranks, back = np.unique(position[known].astype(np.int64), return_inverse=True)
    low, high = np.full(len(ranks), np.inf), np.full(len(ranks), -np.inf)
    np.minimum.at(low, back, values[known])
    np.maximum.at(high, back, values[known])
    if (high - low > 1e-6).any():
        place = int(np.argmax(high - low))
        raise BadInput(
            f"the log's column {name} must be one number for each position. Got {low[place]:g} and "
            f"{high[place]:g} at position {ranks[place]}. Pass propensity=curve."
        )
    return _check_looks(Looks(ranks, high, rests_on=f"the log's column {name}"))


def _check_looks(looks: Looks) -> Looks:
    ranks = looks.ranks
    rising = ranks.ndim == 1 and len(ranks) > 0 and ranks[0] >= 1 and (np.diff(ranks) > 0).all()
    for curve in (looks.values, looks.low, looks.high):
        if curve is None:
            continue
        if not rising or curve.shape != ranks.shape or not (np.isfinite(curve) & (curve > 0.0)).all():
            _refuse(curve)
    if looks.mistakes is not None and looks.mistakes.shape != ranks.shape:
        _refuse(looks.mistakes)
    return looks


def _refuse(values: AnyArray) -> Any:
    raise BadInput(
        "a propensity curve must hold one number above 0 for each rank, ranks rising from 1. "
        f"Got {np.array2string(np.asarray(values), threshold=6, precision=3)}."
    )


def _list_names(by: str | Sequence[str]) -> list[str]:
    return [by] if isinstance(by, str) else [str(name) for name in by]


def _need_numbers(frame: pd.DataFrame, name: str) -> Floats:
    values = frame[name].to_numpy(dtype=np.float64)
    if (unknown := int(np.isnan(values).sum())) > 0:
        raise BadInput(
            f"a candidate is judged by where items stood and what was clicked. Got {unknown:,} of "
            f"{len(values):,} rows without {name}."
        )
    return values
