"""How often each rank is looked at, estimated from a log, with what carries the number said first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    BadInput,
    Floats,
    Ints,
    UnknownName,
    check_count,
    check_share,
    option,
)
from placings.data import check_seed, say_leak
from placings.logs.click_diagnostics import count_freedom, find_misfit
from placings.logs.click_log import ClickLog
from placings.logs.harvesting import Comparisons, CurveFit, compare_rankers, compare_swaps, fit_curve
from placings.logs.position_models import fit_position_model
from placings.logs.propensity_curves import PropensityCurve, say_ranks
from placings.logs.schema import ROWS
from placings.logs.showings import (
    DEEPEST,
    SHOWN_POSITION,
    SHOWN_PROBABILITY,
    SWAP_REACH,
    SWAPPED,
    SWAPPED_WITH,
    Showings,
    rate_items,
    read_showings,
    sum_by,
)
from placings.logs.swap_fits import find_movable, fit_swaps
from placings.logs.trust_fits import fit_trust

if TYPE_CHECKING:
    from placings.data import Table

RANDOMISATION, MODEL, FEATURES = "randomisation", "a position model", "features only"
REMEDY = (
    "Let a few lists be shown with two neighbours swapped, and log the probability: placings serve --explore "
    "0.05 does both."
)
NO_FEATURES = {  # numbers that say where an item stood, or how the list was made: no relevance in them
    "engine_position", SHOWN_POSITION, SHOWN_PROBABILITY, SWAPPED, SWAPPED_WITH, SWAP_REACH,
    "swap_probability", "impressions", "chain_step", "chain_last", "successful", "is_target", "team",
    "fallback",
}  # fmt: skip


# -- estimating --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """What the caller asked for."""

    log: ClickLog
    depth: int | None
    features: Any
    level: float
    seed: int


def estimate_propensity(
    log: ClickLog | Table,
    method: str = "auto",
    *,
    depth: int | None = None,
    by: Sequence[str] = ("query",),
    features: Any = None,
    level: float = 0.95,
    random_state: int | None = 0,
) -> PropensityCurve:
    """How often each rank is looked at, relative to rank 1: `p_k / p_1`, with an interval.

    Under the position-based model an item is clicked with the probability that its rank is looked at times
    the item's own. A log of one fixed order cannot tell the two apart. What can:

    - "swaps": two items were swapped at random, neighbours or (`swapped_with`, `swap_reach`) further apart,
      with `shown_probability` and `swapped` in the log, as `placings serve --explore` writes them: where
      clicked items stood, against where they might have stood. Rests on randomisation.
    - "randomised": the first `depth` of each list were shuffled; only you know that. Clicks by rank.
    - "adjacent", "all-pairs": the same search and item stood at two ranks because two rankers answered
      (`arm`, `model`). Right if which ranker answered did not depend on the search. `by` are the columns that
      say what was searched.
    - "trust": as swaps or all-pairs, with clicks `α_k · g + β_k`, for people who click what stands on top.
    - "em", "two-tower": rank and `features` explain the clicks. Identified by features only. `features` are
      names of numeric columns, a fitted FeatureSet, or a matrix with a line for each of `log.rows`; all
      numeric columns by default.
    - "auto": swaps, else a shuffle that `shown_probability` shows, else all-pairs between two rankers; else
      it refuses and says what to log. It never takes a model that features alone identify.

    A label above 0 is a click. Rows of one user (else session, else search) are one independent draw. Ranks
    that no comparison ties to rank 1 are refused: they are in `refused` and not in `ranks`.

    >>> rng = np.random.default_rng(0)
    >>> rank = np.tile([1, 2], 2000)
    >>> rows = {"search_id": np.repeat(np.arange(2000), 2), "item_id": rank, "position": rank,
    ...         "label": rng.random(4000) < 0.4 / rank}
    >>> curve = estimate_propensity(rows, "randomised", depth=2)
    >>> bool(curve.low[1] < 0.5 < curve.high[1]), curve.rests_on
    (True, 'randomisation')
    """
    if method not in ("auto", *PROPENSITY_METHODS):
        raise UnknownName("method", str(method), ("auto", *PROPENSITY_METHODS))
    if depth is not None:
        check_count("depth", depth, least=2)
    check_share("level", level)
    seed = check_seed(random_state)
    if isinstance(by, str) or not all(isinstance(name, str) for name in by):
        raise BadInput(f"by must be a list of column names. Got {by!r}.")
    if method == "randomised" and depth is None:
        raise BadInput(
            f"method 'randomised' needs {option('depth', value=10)}: how many items at the top were "
            "shuffled. Got none."
        )
    if isinstance(features, np.ndarray) and not isinstance(log, ClickLog):
        raise BadInput(
            "features as a matrix need a ClickLog, since its lines must be those of log.rows, which are in "
            "order of time, search and position. Got other rows."
        )
    given = log if isinstance(log, ClickLog) else ClickLog(log)
    if method in ("em", "two-tower"):
        given.rows  # noqa: B018 (fetched whole and once, so that features and showings are of the same order)
    shown = read_showings(given, tuple(by), depth)
    _check_clicks(shown)
    asked = _Asked(given, depth, features, level, seed)
    if method == "auto":
        method, asked = _choose(shown, asked)
    curve = PROPENSITY_METHODS[method](shown, asked)
    if shown.only_clicked and method not in ("swaps", "randomised"):
        told = (
            "Every search of the log has a click: how often an item was shown in vain is not known, and the "
            "curve is off by that. Join with --unsuccessful negatives."
        )
        curve = replace(curve, notes=(*curve.notes, told))
    return curve


def _check_clicks(shown: Showings) -> None:
    if not len(shown.rank):
        raise BadInput("the log must have rows with a search, an item and a position from 1. Got none.")
    if not shown.clicked.any():
        raise BadInput("the log must have clicks (labels above 0). Got none.")


def _choose(shown: Showings, asked: _Asked) -> tuple[str, _Asked]:
    """The method that the log itself carries, or a refusal that says what to log."""
    if _has_swaps(shown):
        return "swaps", asked
    shuffled = _find_shuffled(shown)
    if shuffled:
        return "randomised", replace(asked, depth=shuffled)
    if len(shown.rankers) > 1 and shown.by and _has_two_ranks(shown):
        return "all-pairs", asked
    if not _has_two_ranks(shown):
        raise BadInput(_say_fixed(shown))
    raise BadInput(
        "nothing in the log says why items stood at different ranks: there are no swaps with their "
        "probability and no two rankers (a column arm or model with two values). If you know that the ranks "
        "moved for reasons that have nothing to do with what people wanted, ask for method 'all-pairs'; if "
        f"the first ranks were shuffled, for 'randomised'. {REMEDY}"
    )


def _say_fixed(shown: Showings) -> str:
    what = " and ".join([*shown.by, "item"])
    return (
        f"every {what} of the log stood at one rank only. Such a log cannot tell how often a rank is looked "
        f"at from how good the items are that stand there, by any method. {REMEDY}"
    )


def _has_swaps(shown: Showings) -> bool:
    return shown.base is not None and bool((shown.base != shown.rank).any())


def _has_two_ranks(shown: Showings) -> bool:
    width = int(shown.rank.max()) + 1
    pairs = np.unique(shown.same * width + shown.rank)
    return len(pairs) > len(np.unique(shown.same))


def _find_shuffled(shown: Showings) -> int:
    """How many ranks were shuffled, by `shown_probability`: 1/n for each of the first n; 0 if not so."""
    if shown.chance is None or shown.base is not None:
        return 0
    moved = shown.chance < 1.0
    if not moved.any():
        return 0
    depth = int(shown.rank[moved].max())
    alike = np.abs(shown.chance[moved] - 1.0 / depth) < 1e-9
    return depth if depth > 1 and bool(alike.all()) else 0


# -- the methods -------------------------------------------------------------------------------------------


def _estimate_swaps(shown: Showings, asked: _Asked) -> PropensityCurve:
    if not _has_swaps(shown):
        lacking = [
            name
            for name, there in (
                (SHOWN_PROBABILITY, shown.chance is not None),
                (SWAPPED, shown.base is not None),
            )
            if not there
        ]
        what = f"has no column {' and no '.join(lacking)}" if lacking else "holds no swapped list"
        raise BadInput(f"method 'swaps' needs lists with swapped neighbours. The log {what}. {REMEDY}")
    moved = shown.rank != shown.base
    lists, swapped = shown.n_searches, len(np.unique(shown.search[moved]))
    fit = _need_ratios(fit_swaps(shown), "no swap has a click")
    says = (
        f"{_say_span(fit.ranks)} carried by randomisation: in {swapped:,} of {lists:,} searches "
        f"{_say_pair(shown)} were swapped, with a known probability."
    )
    curve = _make_curve(shown, asked, fit, "swaps", RANDOMISATION, says, None)
    return replace(curve, clicks=int(shown.clicked[find_movable(shown).row].sum()))


def _say_pair(shown: Showings) -> str:
    moved = shown.rank != shown.base
    far = 1 if shown.reach is None else int(shown.reach[moved].max(initial=1))
    return "two neighbours" if far == 1 else f"two items, at most {far} places apart,"


def _estimate_randomised(shown: Showings, asked: _Asked) -> PropensityCurve:
    depth = asked.depth
    if depth is None:
        raise AssertionError("checked before")
    whole = sum_by(shown.search, shown.rank <= depth) == depth  # every rank is there
    rows = np.flatnonzero(whole[shown.search] & (shown.rank <= depth))
    if not shown.clicked[rows].any():
        raise BadInput(
            f"no list with a click has all of the ranks 1 to {depth}. Got lists of "
            f"{int(np.bincount(shown.search).max())} items at most. Give a smaller depth."
        )
    fit = _fit_rates(shown, rows, depth)
    short = shown.n_searches - int(whole.sum())
    notes = (f"{short:,} lists with fewer than {depth} items are left out.",) if short else ()
    who = "as shown_probability says" if shown.chance is not None else "as you said; the log does not show it"
    says = (
        f"{_say_span(fit.ranks)} carried by randomisation: the first {depth} of {int(whole.sum()):,} lists "
        f"were shuffled, {who}."
    )
    curve = _make_curve(shown, asked, fit, "randomised", RANDOMISATION, says, None)
    return replace(curve, notes=(*notes, *curve.notes), clicks=int(shown.clicked[rows].sum()))


def _fit_rates(shown: Showings, rows: Ints, depth: int) -> CurveFit:
    """Clicks by rank, and half a click more; all lists have the same ranks, so there is nothing to weigh."""
    clicked = rows[shown.clicked[rows]]
    clusters, line = np.unique(shown.cluster[clicked], return_inverse=True)
    counts = sum_by(line * depth + shown.rank[clicked] - 1, np.ones(len(clicked)), len(clusters) * depth)
    counts = counts.reshape(len(clusters), depth)
    totals = counts.sum(axis=0)
    units = np.where(totals > 0.0, (counts**2).sum(axis=0) / np.maximum(totals, 1e-300), 1.0)
    raised = totals + 0.5 * units
    influence = counts / raised
    own = 0.5 * units**2 / raised**2
    extra = np.diag(own) + own[0]
    extra[0] = extra[:, 0] = 0.0
    logs = np.log(raised)
    refused = tuple(int(rank) for rank in np.unique(shown.rank) if rank > depth)
    ranks = np.arange(1, depth + 1)
    return CurveFit(ranks, logs - logs[0], influence - influence[:, :1], extra, clusters, refused)


def _estimate_pairs(shown: Showings, asked: _Asked, *, adjacent: bool) -> PropensityCurve:
    method = "adjacent" if adjacent else "all-pairs"
    comparisons = _compare_or_refuse(shown, method, adjacent=adjacent)
    fit = _need_ratios(fit_curve(comparisons, shown), "no item that stood at two ranks was clicked")
    return _make_curve(
        shown, asked, fit, method, MODEL, f"{_say_span(fit.ranks)} {_say_rankers(shown)}", comparisons
    )


def _compare_or_refuse(shown: Showings, method: str, *, adjacent: bool) -> Comparisons:
    if not shown.by:
        raise BadInput(
            f"method {method!r} needs {option('by')}: the columns that say what was searched. The log has "
            "none of those named."
        )
    if not _has_two_ranks(shown):
        raise BadInput(_say_fixed(shown))
    only = None if method == "trust" else shown.clicked
    return compare_rankers(shown.same, shown.rank, adjacent=adjacent, only=only)


def _say_rankers(shown: Showings) -> str:
    same = " and ".join(["the same", *shown.by, "and item"]).replace("the same and", "the same", 1)
    same = same.replace(" and and item", " and item")
    if len(shown.rankers) > 1:
        named = ", ".join(shown.rankers[:3]) + (", …" if len(shown.rankers) > 3 else "")
        return (
            f"carried by a position model: {same} stood at different ranks by different rankers "
            f"({shown.ranker_column}: {named}). Right only if which ranker answered did not depend on the "
            "search."
        )
    return (
        f"carried by a position model and by your word: {same} stood at different ranks, and the log does "
        "not say why. Right only if it had nothing to do with what people wanted."
    )


def _estimate_adjacent(shown: Showings, asked: _Asked) -> PropensityCurve:
    return _estimate_pairs(shown, asked, adjacent=True)


def _estimate_all_pairs(shown: Showings, asked: _Asked) -> PropensityCurve:
    return _estimate_pairs(shown, asked, adjacent=False)


def _estimate_trust(shown: Showings, asked: _Asked) -> PropensityCurve:
    if _has_swaps(shown):
        comparisons, rests_on = compare_swaps(shown, farthest=1), RANDOMISATION
        carried = "carried by randomisation: neighbours were swapped with a known probability"
    else:
        comparisons, rests_on = _compare_or_refuse(shown, "trust", adjacent=True), MODEL
        carried = _say_rankers(shown).removesuffix(".")
    plain = fit_curve(comparisons, shown)
    looks = np.exp(np.interp(shown.rank, plain.ranks, plain.logs))
    trust = fit_trust(
        comparisons, shown, rate_items(shown, looks), level=asked.level, random_state=asked.seed
    )
    if len(trust.ranks) < 2:
        raise BadInput(
            "trust cannot be told from relevance here: between ranks 1 and 2 the clicks do not rise clearly "
            "with how popular an item is with other people. Give a longer log, or one whose searches repeat."
        )
    says = (
        f"{_say_span(trust.ranks)} {carried}; clicks taken as alpha · relevance + beta, relevance being the "
        "click rate at rank 1."
    )
    return PropensityCurve(
        trust.ranks, np.maximum(trust.alpha, 1e-9), trust.alpha_low, trust.alpha_high, "trust", rests_on,
        says, shown.n_searches, int(shown.clicked[comparisons.row].sum()), shown.by, asked.level,
        trust.refused, _note_ranks(shown), trust,
    )  # fmt: skip


def _estimate_em(shown: Showings, asked: _Asked) -> PropensityCurve:
    return _estimate_features(shown, asked, "em")


def _estimate_towers(shown: Showings, asked: _Asked) -> PropensityCurve:
    return _estimate_features(shown, asked, "two-tower")


def _estimate_features(shown: Showings, asked: _Asked, kind: Any) -> PropensityCurve:
    matrix, names = _read_features(shown, asked)
    clicks = sum_by(shown.rank, shown.clicked)
    there = np.unique(shown.rank)
    ranks = there[clicks[there] > 0]
    if len(ranks) < 2 or ranks[0] != 1:
        raise BadInput(f"rank 1 and one more must have clicks. Got clicks at {say_ranks(ranks)}.")
    kept = np.isin(shown.rank, ranks)
    fit = fit_position_model(
        matrix[kept], np.searchsorted(ranks, shown.rank[kept]), shown.clicked[kept],
        np.unique(shown.cluster[kept], return_inverse=True)[1], kind,
    )  # fmt: skip
    error = np.sqrt(np.diag(fit.covariance))
    values, low, high = _spread(
        fit.logs, error, np.full(len(error), max(fit.clusters - 1.0, 1.0)), asked.level
    )
    says = (
        f"{_say_span(ranks)} identified by features only ({names}): no randomisation and no item at two "
        "ranks stands behind it. Other features give another curve."
    )
    refused = tuple(int(rank) for rank in np.setdiff1d(there, ranks))
    return PropensityCurve(
        ranks, values, low, high, kind, FEATURES, says, shown.n_searches, int(shown.clicked.sum()), shown.by,
        asked.level, refused, _note_ranks(shown),
    )  # fmt: skip


def _read_features(shown: Showings, asked: _Asked) -> tuple[Floats, str]:
    """The matrix of the showings' rows, and what the features are called."""
    features = asked.features
    if isinstance(features, np.ndarray):
        if features.ndim != 2 or len(features) != len(asked.log):
            raise BadInput(
                f"features must have one line for each of the {len(asked.log):,} rows of the log. Got shape "
                f"{features.shape}."
            )
        return np.asarray(features[shown.source], dtype=np.float64), f"{features.shape[1]} columns"
    rows = asked.log.rows
    if features is not None and hasattr(features, "transform"):
        found = features.transform(rows)
        dense = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        return dense[shown.source].astype(np.float64), f"{dense.shape[1]} columns of a feature set"
    names = [*features] if features is not None else _list_numbers(rows)
    unknown = next((name for name in names if name not in rows), None)
    if unknown is not None:
        raise UnknownName("column", str(unknown), map(str, rows.columns))
    if not names:
        raise BadInput(
            f"the log has no numeric column that could tell relevance from rank. Give {option('features')}, "
            "a fitted FeatureSet or a matrix with a line for each row of the log."
        )
    parts = [rows[name].to_numpy(dtype=np.float64, na_value=np.nan)[shown.source] for name in names]
    told = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return np.column_stack(parts), told


def _list_numbers(rows: Any) -> list[str]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    known = {name for name in ROWS if name != "score"} | NO_FEATURES
    return [
        str(name)
        for name in rows.columns
        if name not in known
        and say_leak(str(name)) is None
        and (is_numeric_dtype(rows[name]) or is_bool_dtype(rows[name]))
    ]


PROPENSITY_METHODS: dict[str, Callable[[Showings, _Asked], PropensityCurve]] = {
    "swaps": _estimate_swaps,
    "randomised": _estimate_randomised,
    "adjacent": _estimate_adjacent,
    "all-pairs": _estimate_all_pairs,
    "trust": _estimate_trust,
    "em": _estimate_em,
    "two-tower": _estimate_towers,
}


# -- what they share ---------------------------------------------------------------------------------------


def _make_curve(
    shown: Showings,
    asked: _Asked,
    fit: CurveFit,
    method: str,
    rests_on: str,
    says: str,
    comparisons: Comparisons | None,
) -> PropensityCurve:
    variance = np.diag(fit.covariance)
    freedom = count_freedom(fit.influence, variance)
    values, low, high = _spread(fit.logs, np.sqrt(variance), freedom, asked.level)
    clicks = 0
    if comparisons is not None:
        clicks = len(np.unique(comparisons.row[shown.clicked[comparisons.row]]))
    curve = PropensityCurve(
        fit.ranks, values, low, high, method, rests_on, says, shown.n_searches, clicks, shown.by, asked.level,
        fit.refused, _note_ranks(shown),
    )  # fmt: skip
    return replace(curve, misfit=find_misfit(shown, method, curve))


def _spread(logs: Floats, error: Floats, freedom: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Values and their ends, symmetric on the scale of logarithms; rank 1 is 1."""
    from scipy.special import stdtrit

    reach = stdtrit(freedom, (1.0 + level) / 2.0) * error
    reach[0] = 0.0
    low, high = np.exp(np.clip(logs - reach, -500.0, 500.0)), np.exp(np.clip(logs + reach, -500.0, 500.0))
    return np.exp(logs), low, high


def _need_ratios(fit: CurveFit, why: str) -> CurveFit:
    if len(fit.ranks) < 2:
        raise BadInput(f"no rank is tied to rank 1: {why}. Give a longer log. {REMEDY}")
    return fit


def _note_ranks(shown: Showings) -> tuple[str, ...]:
    told = [f"Intervals take what has the same {shown.unit} as one draw."]
    if shown.dropped and int(shown.rank.max()) == DEEPEST:
        told.append(f"Rows beyond rank {DEEPEST} were not looked at; depth goes further.")
    return tuple(told)


def _say_span(ranks: Sequence[int] | Ints) -> str:
    return f"How often {say_ranks(ranks)} are looked at, relative to rank 1,"
