"""The places study: every table and figure of chapter 6 of the thesis from one joined log, resumable."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    AnyArray,
    BadBundle,
    Floats,
    Ints,
    keep_old_names,
    need_library,
    plain_value,
    write_json,
    write_text,
)
from placings.features import FeatureSet
from placings.logs import PAST, ClickLog, find_offsets, name_people
from placings.metrics import rank_of_first_relevant
from placings.rankers import MeanRanker
from placings.rerank import Reranker, describe_searches, list_members, load_reranker
from placings.studies.places_lines import MEAN, judge_lines, judge_members, tell_lines
from placings.studies.places_measures import (
    collect_lengths,
    compare_two,
    describe_models,
    find_ranks,
    find_sessions,
    invert_ranks,
    judge_slices,
    list_measures,
    tell_bands,
)
from placings.studies.places_models import (
    COUNTED,
    DEEP,
    ENGINE,
    GROUPWISE,
    LIBRARIES,
    LINEAR,
    RANKSVM,
    RELATIONS,
    THESIS,
    TREE_NGRAMS,
    VARIANTS,
    Families,
    FeatureData,
    Parts,
    StudyCells,
    StudySettings,
    choose_settings,
    cut_parts,
    describe_settings,
    hide_location,
    judge_engine,
    judge_network,
    judge_ranksvm,
    judge_tree,
    list_families,
)
from placings.studies.places_tables import render_study
from placings.studies.places_why import explain_lengths, find_seen, try_unclicked, weigh_ngrams

if TYPE_CHECKING:
    import pandas as pd

DEFAULT, UNGUARDED = "default re-ranker", "default without guard"
MEMBERS = {"lightgbm": "LightGBM of the default", "neural": "network of the default"}
RESULT, TABLES, MODEL, CELLS = "study.json", "study.md", "reranker", "cells"


def study_places(
    rows: ClickLog | pd.DataFrame | str | Path,
    *,
    out: str | Path | None = None,
    settings: StudySettings | None = None,
    simulated: bool | None = None,
    families: Families | None = None,
    progress: bool | Callable[[str], object] = False,
) -> dict[str, Any]:
    """All tables of chapter 6 from a click log, its rows or their file, as one plain dict.

    The log is cut 64/16/20 by session, the last ones for the test. Each model, trial and experiment is a
    cell; with `out` its result is kept there, under a key of the rows, the settings and the libraries'
    versions, so a run that was killed goes on where it stopped. `out` also receives `study.json` (the dict),
    `study.md` (the tables) and `reranker` (the default re-ranker, which is judged as it loads from there).
    `simulated` is written over every table; if it is not said, a log that names the true target
    (`is_target`) is taken for one.

    `families` are feature sets by name in place of the study's own; see `list_families`. `progress` says each
    cell on stderr, or to a function.
    """
    began = time.perf_counter()
    if isinstance(rows, ClickLog):
        log = rows
    else:
        log = ClickLog.read(rows) if isinstance(rows, str | Path) else ClickLog(rows)
    asked = settings or choose_settings(log.n_searches)
    parts = cut_parts(log, asked)
    home = None if out is None else Path(out)
    feature_data = FeatureData(parts, asked, families or list_families(asked))
    store = StudyCells(parts, asked, feature_data, None if home is None else home / CELLS, progress)
    store.say(f"{parts.counts['searches']:,} searches, {parts.counts['train']:,} to train on")
    known = "is_target" in log.columns if simulated is None else simulated
    result = plain_value({"simulated": known, "settings": describe_settings(asked), "counts": parts.counts,
                          **fill_tables(store, home)})  # fmt: skip
    result["seconds"] = round(time.perf_counter() - began, 1)
    if home is not None:
        home.mkdir(parents=True, exist_ok=True)
        write_text(home / RESULT, write_json(result) + "\n")
        write_text(home / TABLES, render_study(result, "markdown") + "\n")
    return dict(result)


def fill_tables(store: StudyCells, home: Path | None) -> dict[str, Any]:
    """Every table; models of one family of features stand together, so that each is made once."""
    parts, settings = store.parts, store.settings
    offsets = find_offsets(parts.test)
    sessions = find_sessions(parts.test, offsets)
    how: dict[str, Any] = {"draws": settings.bootstrap, "seed": settings.seed, "sessions": sessions}
    context = describe_searches(parts.test, offsets)
    if "kind" in parts.test:
        context["kind"] = parts.test["kind"].astype(str).to_numpy(dtype=object)[offsets[:-1]]
    cells: dict[str, dict[str, Any]] = {ENGINE: judge_engine(store)}
    # relations: the default re-ranker, lines beside it, and what unclicked searches are worth
    default = judge_default(store, home, context)
    lines = judge_default_lines(store)
    unsuccessful = try_unclicked(store, cells[ENGINE])
    # n-grams for trees
    tuned = {name: judge_tree(store, name) for name in LIBRARIES}
    lengths = count_letters(parts.test, offsets)
    bands = context.get("length", np.full(len(offsets) - 1, "[0, 2]", dtype=object))
    seen = find_seen(parts.train, parts.test)
    why = explain_lengths(store, cells[ENGINE], bands, seen)
    store.feature_data.forget(TREE_NGRAMS, RELATIONS)
    # all n-grams
    cells[RANKSVM] = judge_ranksvm(store)
    networks = {short: judge_network(store, short) for short in ("linear", "deep", *settings.variants)}
    store.feature_data.forget(THESIS)
    importances = weigh_ngrams(store)
    store.feature_data.forget(COUNTED)
    cells |= {name: found[1] for name, found in tuned.items()}
    cells |= {LINEAR: networks["linear"], DEEP: networks["deep"]}
    if "groupwise" in networks:
        cells[GROUPWISE] = networks["groupwise"]
    defaults = {UNGUARDED: default["unguarded"], DEFAULT: default["guarded"]}
    told = tell_default_lines(cells[ENGINE], lines, default, **how)
    cells |= {told["best"]: lines[told["best"]], **defaults}
    ngrams = "LightGBM"
    known = {ENGINE: cells[ENGINE], **{each["title"]: each for each in networks.values()}}
    return {
        "models": describe_models(cells, ENGINE, **how),
        "lines": told,
        "ranks": {name: [rank for rank in cell["clicks"] if rank] for name, cell in cells.items()},
        "tuned": [_tell_tuning(name, *found, store) for name, found in tuned.items()],
        "variants": sorted(
            describe_models(known, ENGINE, **how)[1:], key=lambda row: -row["mrr"]
        ),
        "importances": importances,
        "types": count_types(parts),
        "curves": {VARIANTS[short][1]: cell["curve"] for short, cell in networks.items() if "curve" in cell},
        "no_location": tell_hidden(cells, default, ngrams),
        "bands": tell_bands(cells, ENGINE, DEFAULT, ngrams, bands, **how),
        "lengths_by_rank": collect_lengths(cells, (ENGINE, ngrams, DEFAULT), lengths),
        "slices": judge_slices(
            cells[ENGINE], cells[DEFAULT], {**context, **tell_people(parts)}, least=settings.least, **how
        ),
        "ngram_slices": judge_slices(
            cells[ENGINE], cells[ngrams], context, least=settings.least, **how
        ),
        "types_clicked": judge_types(cells, parts, offsets, store),
        "depth": default["depth"],
        "oracle": default["oracle"],
        "left_to_engine": default["left_to_engine"],
        "guard": default["guard"],
        "default": {key: default[key] for key in ("chosen", "valid", "lists")},
        "served": default["served"],
        "unsuccessful": unsuccessful,
        "why": why,
    }  # fmt: skip


def judge_default(store: StudyCells, home: Path | None, context: Mapping[str, AnyArray]) -> dict[str, Any]:
    """The cell of the default re-ranker: ranks with and without the guard, of each member alone, without
    location, by depth.

    What is judged is what is saved: the re-ranker is loaded from its folder and asked one search at a time.
    """
    settings, parts = store.settings, store.parts
    path = None if home is None else home / MODEL

    def make() -> dict[str, Any]:
        began = time.perf_counter()
        store.say("re-ranker: training trees and a network")
        trained = make_default(settings, store.feature_data.families[RELATIONS]())
        trained.fit(ClickLog(parts.train_log), valid=ClickLog(parts.valid_log))
        took = round(time.perf_counter() - began, 2)
        told = ", ".join(f"{kind} {value:.4f}" for kind, value in trained.valid_.items())
        store.say(f"re-ranker, {trained.lists_:,} lists, MRR on validation: {told}")
        served, digest = save_and_load(trained, path)
        guard = served.guard_
        assert guard is not None
        test = ask_rows(parts.test, settings)
        facts, live = judge_served(store, served)
        bare = judge_members(store, trained, served, test)
        return {
            "chosen": list(trained.valid_)[-1],
            "valid": trained.valid_,
            "lists": trained.lists_,
            "unguarded": bare.pop(MEAN),
            "members": bare,
            "guarded": {**store.rank(live), "lists": trained.lists_, "seconds": took},
            "hidden": store.rank(served.score(hide_location(test))),
            "left_to_engine": guard.left_to_engine(context, len(find_offsets(test)) - 1),
            "guard": guard.to_state(),
            "served": {**facts, "digest": digest},
            **tell_depth(store, served),
        }

    names = ("rounds", "neural_steps", "depths", "bootstrap")
    about = {
        "features": store.feature_data.describe(RELATIONS),
        "settings": {name: getattr(settings, name) for name in names},
        "resampled": "sessions" if "session_id" in parts.test else "searches",
    }

    def stands(cell: Mapping[str, Any]) -> bool:
        """Whether the folder still holds the re-ranker that was judged."""
        try:
            return path is None or bool(load_reranker(path, digest=cell["served"]["digest"]))
        except (BadBundle, KeyError):
            return False

    return store.keep(DEFAULT, about, make, stands)


def judge_default_lines(store: StudyCells) -> dict[str, dict[str, Any]]:
    """The cell of a ridge over each transform, by name, on the lists that the default learns from."""
    settings = store.settings
    default = make_default(settings, store.feature_data.families[RELATIONS]())
    return judge_lines(store, default, ask_rows(store.parts.test, settings))


def tell_default_lines(
    engine: Mapping[str, Any],
    lines: Mapping[str, Mapping[str, Any]],
    default: Mapping[str, Any],
    **how: Any,
) -> dict[str, Any]:
    """The table of lines beside the default re-ranker and its members; `default` is its cell."""
    members = {MEMBERS[kind]: cell for kind, cell in default["members"].items()}
    others = {**members, UNGUARDED: default["unguarded"], DEFAULT: default["guarded"]}
    return tell_lines(engine, lines, others, **how)


def tell_people(parts: Parts) -> dict[str, AnyArray]:
    """For each test search whether its person had clicked in training or validation before, as `person`.

    It is known before the click, and says where a history of people could help at all. A log that names no
    people, or tells no time, has no such slice.
    """
    if not {"user_id", "time"} <= set(parts.test.columns):
        return {}
    pandas = need_library("pandas", "the places study")
    known = pandas.concat([parts.train_log, parts.valid_log])
    return {"person": name_people(parts.test, known)[find_offsets(parts.test)[:-1]]}


def make_default(settings: StudySettings, features: FeatureSet | None = None) -> Reranker:
    """The default re-ranker, with as many rounds and steps as the study has."""
    members = list_members(settings.seed, rounds=2 * settings.rounds, steps=settings.neural_steps)
    return Reranker(
        features="places" if features is None else features,
        ranker=MeanRanker(members=members),
        pool=settings.pool,
        random_state=settings.seed,
    )


def fit_reranker(train: pd.DataFrame, valid: pd.DataFrame, **settings: Any) -> Reranker:
    """Version 0.1's way to the default re-ranker; goes in version 0.3."""
    warnings.warn("fit_reranker is now Reranker().fit(train, valid=valid)", DeprecationWarning, stacklevel=2)
    made = make_default(settings.get("settings") or StudySettings(), settings.get("features"))
    return made.fit(ClickLog(train), valid=ClickLog(valid))


def save_and_load(reranker: Reranker, path: Path | None) -> tuple[Reranker, str]:
    """The re-ranker as it is served: saved (without `path` for a moment) and loaded again; its digest."""
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            return save_and_load(reranker, Path(folder) / "reranker")
    digest = reranker.save(path, metrics={"mrr_valid": list(reranker.valid_.values())[-1]})
    return load_reranker(path, digest=digest), digest


def count_unlike(one: Floats, other: Floats, offsets: Ints) -> int:
    """How many lists two columns of scores put into different orders.

    >>> count_unlike(np.array([2.0, 1.0, 5.0, 7.0]), np.array([9.0, 8.0, 1.0, 0.0]), np.array([0, 2, 4]))
    1
    """
    orders = [np.argsort(-scores[start:stop], kind="stable")
              for start, stop in pairwise(offsets.tolist()) for scores in (one, other)]  # fmt: skip
    return sum(not np.array_equal(*pair) for pair in zip(orders[::2], orders[1::2], strict=True))


def ask_rows(rows: pd.DataFrame, settings: StudySettings) -> pd.DataFrame:
    """Rows as a re-ranker is asked about them: it knows past clicks as they stood when training ended.

    Where sessions were drawn at random, some that were learned from came later than the search; so rows bring
    the count as of their search along.
    """
    return rows if settings.split == "session" else rows.drop(columns=PAST, errors="ignore")


def judge_served(store: StudyCells, served: Reranker) -> tuple[dict[str, Any], Floats]:
    """How many test searches a live request orders otherwise than the batch, and the live order as scores."""
    rows = ask_rows(store.parts.test, store.settings)
    live, offsets = served.score(rows, live=True), find_offsets(rows)
    return {
        "searches": len(offsets) - 1,
        "unlike_batch": count_unlike(live, served.score(rows), offsets),
    }, live


def tell_depth(store: StudyCells, served: Reranker) -> dict[str, Any]:
    """MRR of re-ranking the engine's first k, and the ceiling of any order; items beyond k count as absent.

    Judged on the true target where it is known, on the clicked item otherwise. Depths that the log does not
    reach are left out. `oracle` is the ceiling of the study's own pool.
    """
    rows = ask_rows(store.parts.deep, store.settings)
    column = "is_target" if store.parts.has_truth else "label"
    judged = rows.groupby("search_id", sort=False)[column].transform("max").to_numpy() > 0
    rows = rows if store.parts.has_truth else rows[judged].reset_index(drop=True)
    deepest = int(rows["position"].max())
    table: list[dict[str, Any]] = []
    depths = [k for k in store.settings.depths if k <= deepest or k == min(store.settings.depths)]
    for k in sorted({*depths, min(store.settings.pool, deepest)}):
        pool = rows[rows["position"] <= k].reset_index(drop=True)
        offsets = find_offsets(pool)
        truth = pool[column].to_numpy(dtype=np.float64)
        engine = invert_ranks(find_ranks(-pool["position"].to_numpy(float), truth, offsets), absent=0.0)
        model = invert_ranks(find_ranks(served.score(pool), truth, offsets), absent=0.0)
        facts = compare_two(
            engine, model, draws=store.settings.bootstrap, seed=store.settings.seed,
            sessions=find_sessions(pool, offsets),
        )  # fmt: skip
        held = rank_of_first_relevant(truth, truth, offsets)
        table.append({"k": k, **facts, "oracle": float((~np.isnan(held)).mean())})
    within = [row for row in table if row["k"] <= store.settings.pool]
    measure = "true" if store.parts.has_truth else "clicks"
    return {"depth": table, "oracle": within[-1]["oracle"], "depth_measure": measure}


def tell_hidden(
    cells: Mapping[str, Mapping[str, Any]], default: Mapping[str, Any], ngrams: str
) -> dict[str, Any]:
    """Figure 6.15: the test data without any user's position; the engine's order is as it was."""
    found = {}
    for name, cell in (
        (ENGINE, cells[ENGINE]), (ngrams, cells[ngrams].get("hidden")), (DEFAULT, default["hidden"]),
    ):  # fmt: skip
        if cell is None:
            continue
        values = invert_ranks(cell["clicks"], absent=np.nan)
        real = None if cell["true"] is None else float(invert_ranks(cell["true"], absent=0.0).mean())
        found[name] = {
            "mrr": float(np.nanmean(values)), "mrr_true": real,
            "ranks": [rank for rank in cell["clicks"] if rank],
        }  # fmt: skip
    return found


def judge_types(
    cells: Mapping[str, Mapping[str, Any]], parts: Parts, offsets: Ints, store: StudyCells
) -> list[dict[str, Any]]:
    """By the type of the clicked item, which nobody knows beforehand: to report, not to judge by."""
    if "type" not in parts.test:
        return []
    test = parts.test
    hits = test["label"].to_numpy() > 0
    first = np.flatnonzero(hits)
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    kinds = np.full(len(offsets) - 1, "", dtype=object)
    for row in first[::-1]:
        kinds[owner[row]] = str(test["type"].iloc[row])
    table = []
    for kind in sorted({kind for kind in kinds.tolist() if kind}):
        before, after = list_measures(cells[ENGINE], cells[DEFAULT])["clicks"]
        facts = compare_two(
            before,
            after,
            kinds == kind,
            draws=store.settings.bootstrap,
            seed=store.settings.seed,
            sessions=find_sessions(test, offsets),
        )
        table.append({"type": kind, **facts})
    return table


def count_types(parts: Parts) -> dict[str, dict[str, int]]:
    """Figure 6.4: how often each type of item was shown and clicked, over all parts."""
    pandas = need_library("pandas", "the places study")
    tables = [parts.train, parts.valid, parts.test, parts.unclicked]
    if any("type" not in table for table in tables):
        return {}
    both = pandas.concat([table[["type", "label"]] for table in tables])
    groups = (both["label"] > 0).groupby(both["type"].astype(str))
    shown, clicked = groups.size(), groups.sum()
    return {
        str(kind): {"shown": int(shown[kind]), "clicked": int(clicked[kind])}
        for kind in shown.sort_values(ascending=False).index
    }


def count_letters(rows: pd.DataFrame, offsets: Ints) -> Ints:
    """Characters of each search's query; 0 where the log has none."""
    if "query" not in rows:
        return np.zeros(len(offsets) - 1, dtype=np.int64)
    texts = rows["query"].to_numpy(dtype=object)[offsets[:-1]]
    return np.array([len(text) if isinstance(text, str) else 0 for text in texts], dtype=np.int64)


def _tell_tuning(
    name: str, base: Mapping[str, Any], best: Mapping[str, Any], store: StudyCells
) -> dict[str, Any]:
    """Table 6.2: a row of one library."""
    table = describe_models(
        {"default": base, "tuned": best},
        "default",
        draws=store.settings.bootstrap,
        seed=store.settings.seed,
        sessions=find_sessions(store.parts.test, find_offsets(store.parts.test)),
    )
    return {
        "model": name, "default": table[0]["mrr"], "default_low": table[0]["low"],
        "default_high": table[0]["high"], "tuned": table[1]["mrr"],
        "tuned_low": table[1]["low"], "tuned_high": table[1]["high"],
        "difference": table[1]["difference"], "difference_low": table[1]["difference_low"],
        "difference_high": table[1]["difference_high"], "p": table[1]["p"],
        "default_true": table[0]["mrr_true"], "tuned_true": table[1]["mrr_true"],
        "parameters": best["parameters"], "valid": [base["valid"], best["valid"]],
    }  # fmt: skip


__getattr__ = keep_old_names(__name__, {"run_study": "study_places"})
