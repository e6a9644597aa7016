"""Numbers of the places study: reciprocal ranks, their intervals, bands of length, slices, depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import AnyArray, Floats, Ints, adjust_holm, bootstrap_means, flip_signs, mean_known
from placings.metrics import rank_of_first_relevant

if TYPE_CHECKING:
    import pandas as pd

LARGEST_LOSS = 0.01  # a slice whose mean falls by more loses, whatever its interval
LONGEST_LIST = 10  # ranks of which lengths are kept one by one
KINDS = ("length", "location", "kind", "match", "target", "platform")


def find_ranks(scores: Floats, labels: Floats, offsets: Ints) -> list[int]:
    """The rank of the first relevant row of each search; 0 where there is none."""
    ranks = rank_of_first_relevant(scores, labels, offsets)
    return [0 if np.isnan(rank) else int(rank) for rank in ranks]


def invert_ranks(ranks: Sequence[int], *, absent: float) -> Floats:
    """Reciprocal ranks; `absent` (NaN: not judged, 0: not in the list) where the rank is 0.

    >>> invert_ranks([1, 0, 4], absent=0.0)
    array([1.  , 0.  , 0.25])
    """
    given = np.asarray(ranks, dtype=np.float64)
    return np.where(given > 0, 1.0 / np.maximum(given, 1.0), absent)


def find_sessions(rows: pd.DataFrame, offsets: Ints) -> AnyArray | None:
    """The session of each search `[searches]`; None where the log knows none."""
    if "session_id" not in rows:
        return None
    return rows["session_id"].to_numpy(dtype=object)[offsets[:-1]]


def describe_models(
    cells: Mapping[str, Mapping[str, Any]],
    engine: str,
    *,
    draws: int,
    seed: int,
    sessions: AnyArray | None = None,
) -> list[dict[str, Any]]:
    """MRR on clicks and on the true target, with intervals and paired differences to the engine.

    `p` is a sign-flip test of the difference on clicks, with Holm's correction over the models. Searches of
    one of `sessions` (one id for each search) are alike: they are drawn, and change their sign, together.
    """
    names = list(cells)
    clicks = np.stack([invert_ranks(cells[name]["clicks"], absent=np.nan) for name in names], axis=1)
    found = _compare(clicks, names.index(engine), draws, seed, sessions)
    truth = None
    if cells[engine].get("true") is not None:
        true = np.stack([invert_ranks(cells[name]["true"], absent=0.0) for name in names], axis=1)
        truth = _compare(true, names.index(engine), draws, seed, sessions)
    table = []
    for place, name in enumerate(names):
        row: dict[str, Any] = {"name": name, **{key: values[place] for key, values in found.items()}}
        for key in found:
            row[f"{key}_true"] = None if truth is None else truth[key][place]
        row["seconds"] = cells[name].get("seconds", 0.0)
        table.append(row)
    return table


def _compare(
    values: Floats, base: int, draws: int, seed: int, sessions: AnyArray | None
) -> dict[str, Floats]:
    """Means, intervals, differences and tests of all columns, from one resampling."""
    differences = values - values[:, [base]]
    both = np.concatenate([values, differences], axis=1)
    low, high = bootstrap_means(both, draws=draws, random_state=seed, clusters=sessions)
    count = values.shape[1]
    p = flip_signs(differences, permutations=5000, random_state=seed, clusters=sessions)
    p[base] = np.nan
    return {
        "mrr": mean_known(values), "low": low[:count], "high": high[:count],
        "difference": mean_known(differences), "difference_low": low[count:], "difference_high": high[count:],
        "p": adjust_holm(p),
    }  # fmt: skip


def compare_two(
    engine: Floats,
    model: Floats,
    chosen: AnyArray | None = None,
    *,
    draws: int,
    seed: int,
    sessions: AnyArray | None = None,
) -> dict[str, Any]:
    """Means of both over the chosen searches and the paired difference with its 95 % interval.

    With `sessions` (one id for each search, chosen or not) whole sessions are drawn.
    """
    here = slice(None) if chosen is None else chosen
    pair = np.stack([engine[here], model[here], model[here] - engine[here]], axis=1)
    known = ~np.isnan(pair).any(axis=1)
    pair = pair[known]
    if not len(pair):
        return {"searches": 0, "engine": None, "model": None, "difference": None, "low": None, "high": None}
    drawn = None if sessions is None else sessions[here][known]
    low, high = bootstrap_means(pair[:, 2:], draws=draws, random_state=seed, clusters=drawn)
    means = pair.mean(axis=0)
    return {
        "searches": len(pair), "engine": float(means[0]), "model": float(means[1]),
        "difference": float(means[2]), "low": float(low[0]), "high": float(high[0]),
    }  # fmt: skip


def loses(facts: Mapping[str, Any]) -> bool:
    """Whether the model is worse: the whole interval below zero, or the mean by more than 0.01.

    >>> loses({"difference": -0.004, "low": -0.02, "high": 0.01})
    False
    """
    return bool(facts["high"] < 0.0 or facts["difference"] < -LARGEST_LOSS)


def judge_slices(
    engine: Mapping[str, Any],
    model: Mapping[str, Any],
    context: Mapping[str, AnyArray],
    *,
    least: int,
    draws: int,
    seed: int,
    sessions: AnyArray | None = None,
) -> list[dict[str, Any]]:
    """The model against the engine on every slice of at least `least` searches, the worst first.

    Judged on the true target where it is known, on clicks otherwise; the other stands beside it.
    """
    measures = list_measures(engine, model)
    table = []
    for name in [*(kind for kind in KINDS if kind in context), *(k for k in context if k not in KINDS)]:
        for value in sorted(set(map(str, context[name].tolist()))):
            here = context[name].astype(str) == value
            row: dict[str, Any] = {"slice": name, "value": value}
            for place, (measure, (before, after)) in enumerate(measures.items()):
                facts = compare_two(before, after, here, draws=draws, seed=seed, sessions=sessions)
                enough = facts["searches"] >= least
                if place == 0 and not enough:
                    break
                end = "" if place == 0 else f"_{measure}"
                row |= {f"{key}{end}": number for key, number in facts.items()}
                row[f"loses{end}"] = loses(facts) if enough else None
                if place == 0:
                    row["measure"] = measure
            else:
                table.append(row)
    return sorted(table, key=lambda row: (row["difference"], row["low"]))


def list_measures(engine: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, tuple[Floats, Floats]]:
    """Reciprocal ranks of engine and model, the true target first where it is known."""
    found = {}
    if engine.get("true") is not None:
        found["true"] = (invert_ranks(engine["true"], absent=0.0), invert_ranks(model["true"], absent=0.0))
    found["clicks"] = (
        invert_ranks(engine["clicks"], absent=np.nan), invert_ranks(model["clicks"], absent=np.nan),
    )  # fmt: skip
    return found


def tell_bands(
    cells: Mapping[str, Mapping[str, Any]],
    engine: str,
    model: str,
    ngrams: str,
    bands: AnyArray,
    *,
    draws: int,
    seed: int,
    sessions: AnyArray | None = None,
) -> list[dict[str, Any]]:
    """Table 6.4: MRR by band of query length, of the engine, the default and the thesis' best model."""
    how: dict[str, Any] = {"seed": seed, "sessions": sessions}
    table = []
    for band in sorted(set(bands.tolist()), key=_find_start):
        here = bands == band
        row: dict[str, Any] = {"band": band}
        pairs = list_measures(cells[engine], cells[model])
        others = list_measures(cells[engine], cells[ngrams])
        before, after = pairs["clicks"]
        row |= compare_two(before, after, here, draws=draws, **how)
        if not row["searches"]:
            continue
        far = compare_two(*others["clicks"], here, draws=draws, **how)
        row |= {"ngrams": far["model"], "ngrams_difference": far["difference"], "ngrams_low": far["low"],
                "ngrams_high": far["high"]}  # fmt: skip
        if "true" in pairs:
            real = compare_two(*pairs["true"], here, draws=draws, **how)
            row |= {f"{key}_true": number for key, number in real.items()}
            row["ngrams_true"] = compare_two(*others["true"], here, draws=0, **how)["model"]
        table.append(row)
    return table


def collect_lengths(
    cells: Mapping[str, Mapping[str, Any]], names: Sequence[str], lengths: Ints
) -> dict[str, dict[str, list[int]]]:
    """Figure 6.16: lengths of the queries whose clicked item stands at each of the first ten ranks."""
    found: dict[str, dict[str, list[int]]] = {}
    for name in names:
        ranks = np.asarray(cells[name]["clicks"])
        found[name] = {
            str(rank): lengths[ranks == rank].tolist()
            for rank in range(1, LONGEST_LIST + 1)
            if (ranks == rank).any()
        }
    return found


def _find_start(band: str) -> int:
    return int(band.strip("[]").split(",")[0])
