"""The demo: real places, people who look for them, a log, its coverage, four rankers and one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import flip_signs, plain_value, write_json, write_text
from placings.logs import ClickLog, find_offsets
from placings.rankers import MeanRanker
from placings.rerank import Reranker, describe_searches
from placings.studies.places import (
    DEFAULT,
    MODEL,
    ask_rows,
    count_letters,
    count_types,
    judge_served,
    make_default,
    save_and_load,
    tell_depth,
)
from placings.studies.places_measures import (
    collect_lengths,
    compare_two,
    describe_models,
    find_ranks,
    find_sessions,
    invert_ranks,
    judge_slices,
)
from placings.studies.places_models import (
    ENGINE,
    RELATIONS,
    FeatureData,
    StudyCells,
    StudySettings,
    cut_parts,
    describe_fit,
    describe_settings,
    judge_engine,
)
from placings.studies.places_tables import render_study

if TYPE_CHECKING:
    import pandas as pd

    from placings.places import Place, SqliteEngine

Say = Callable[[str], None]
LINEAR = "linear"
NAMES = {"lightgbm": "LightGBM", "neural": "neural"}
DARK, DARK_DAYS, DARK_PLATFORM = "weight", 7, "android"  # lost where, and for how long
SETTINGS = StudySettings(
    split="time", rounds=100, neural_steps=600, bootstrap=1000, least=50, depths=(10, 20, 40)
)


def run_demo(
    out: Path, *, searches: int = 4000, seed: int = 0, places: Path | None = None, say: Say = print
) -> dict[str, Any]:
    """From places to a saved re-ranker; what was found, as the study has it. Written to `out` as well.

    `places` is a file of places in place of GeoNames' cities. The last fifth of the sessions by time is held
    out. Everything over the simulated log says SIMULATED.
    """
    out.mkdir(parents=True, exist_ok=True)
    known, engine = open_index(out, places, say)
    frame = simulate_and_join(out, known, engine, searches, seed, say)
    settings = replace(SETTINGS, seed=seed)
    parts = cut_parts(frame, settings)
    say(
        f"\n4. Who ranks better: trained on {parts.counts['train']:,} searches with a click, "
        f"judged on the last {parts.counts['test']:,}"
    )
    store = StudyCells(parts, settings, FeatureData(parts, settings, {RELATIONS: _make_features}), None)
    result, served = judge_rankers(store, out / MODEL)
    say("\n" + render_study(result))
    say("\n5. A feature goes dark, and what that costs")
    result["coverage"] = show_dark(store, served, say)
    write_text(out / "demo.json", write_json(plain_value(result)) + "\n")
    return result


def open_index(out: Path, places: Path | None, say: Say) -> tuple[list[Place], SqliteEngine]:
    """Real places, and an engine that finds them."""
    import time

    from placings.places import SqliteEngine, build_index, read_geonames, read_places

    known = read_geonames() if places is None else read_places(places)
    index = out / "places.db"
    began = time.perf_counter()
    build_index(known, index)
    source = "GeoNames (CC BY 4.0)" if places is None else str(places)
    say(f"1. The engine: {len(known):,} places of {source} in {index} ({time.perf_counter() - began:.0f} s)")
    engine = SqliteEngine(index)
    example = "karls" if places is None else known[0].name[:5]
    found = engine.search(example, k=3)
    say(f"   {example!r} finds {', '.join(hit.name for hit in found)}")
    return list(known), engine


def simulate_and_join(
    out: Path, places: list[Place], engine: SqliteEngine, searches: int, seed: int, say: Say
) -> pd.DataFrame:
    """People search and click; the two logs they leave are joined to query groups."""
    from placings.logs import join_logs
    from placings.simulate import simulate_log

    log = simulate_log(places, engine, searches, k=SETTINGS.pool, random_state=seed)
    folder = out / "log"
    log.write(folder)
    say(f"\n2. The log, in {folder}\n   {log.describe()}")
    rows = out / "rows.parquet"
    paths = {name: folder / f"{name}.parquet" for name in ("searches", "actions", "truth")}
    with join_logs(
        paths["searches"], paths["actions"], truth=paths["truth"], unsuccessful="negatives"
    ) as joined:
        joined.write(rows)
        frame, report = joined.rows, joined.report
    if report is None:
        raise AssertionError("a join has a report")
    told = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in report.outcomes.items())
    say(
        f"\n3. Query groups, in {rows}: {report.notes['rows']:,} rows in {report.notes['groups']:,} groups "
        f"({told}); left out {report.broken:,}"
    )
    return frame


def judge_rankers(store: StudyCells, path: Path) -> tuple[dict[str, Any], Reranker]:
    """Engine, linear, trees, network and the guarded re-ranker, on the same searches of the last days.

    The re-ranker is saved in `path`, loaded again, and judged as it will be served.
    """
    from placings.rankers import LinearRanker

    parts, settings = store.parts, store.settings
    trained = make_default(settings, _make_features())
    trained.fit(ClickLog(parts.train_log), valid=ClickLog(parts.valid_log))
    served, digest = save_and_load(trained, path)
    mean = trained.ranker_
    assert isinstance(mean, MeanRanker)
    guard = served.guard_
    assert guard is not None
    store.feature_data.fitted[RELATIONS] = served.features_
    test = store.feature_data.data(RELATIONS, "test")
    cells: dict[str, dict[str, Any]] = {ENGINE: judge_engine(store)}
    cells[LINEAR] = store.judge(LINEAR, RELATIONS, LinearRanker())
    for kind, ranker in mean.members_.items():
        scores = np.asarray(ranker.predict(test), dtype=np.float64)
        cells[NAMES[kind]] = {**store.rank(scores), "seconds": mean.seconds_[kind]}
    facts, live = judge_served(store, served)
    cells[DEFAULT] = {**store.rank(live), "seconds": sum(mean.seconds_.values())}
    offsets = find_offsets(parts.test)
    context = describe_searches(parts.test, offsets)
    if "kind" in parts.test:
        context["kind"] = parts.test["kind"].astype(str).to_numpy(dtype=object)[offsets[:-1]]
    how: dict[str, Any] = {
        "draws": settings.bootstrap, "seed": settings.seed, "sessions": find_sessions(parts.test, offsets),
    }  # fmt: skip
    curves = {
        NAMES[kind]: fit["curve"]
        for kind, ranker in mean.members_.items()
        if "curve" in (fit := describe_fit(ranker))
    }
    depth = tell_depth(store, served)
    result = {
        "simulated": True, "settings": describe_settings(settings), "counts": parts.counts,
        "models": describe_models(cells, ENGINE, **how),
        "ranks": {name: [rank for rank in cell["clicks"] if rank] for name, cell in cells.items()},
        "slices": judge_slices(
            cells[ENGINE], cells[DEFAULT], context, least=settings.least, **how
        ),
        "lengths_by_rank": collect_lengths(cells, (ENGINE, DEFAULT), count_letters(parts.test, offsets)),
        "types": count_types(parts), "curves": curves, "depth": depth["depth"], "oracle": depth["oracle"],
        "left_to_engine": guard.left_to_engine(context, len(test)), "guard": guard.to_state(),
        "default": {"chosen": list(trained.valid_)[-1], "valid": trained.valid_},
        "served": {**facts, "digest": digest},
    }  # fmt: skip
    return dict(plain_value(result)), served


def show_dark(store: StudyCells, served: Reranker, say: Say) -> dict[str, Any]:
    """Take the popularity of all places away on one platform for the last days: coverage, and what it costs.

    The column of the log goes dark, and with it every feature made of it. The cost is judged on the true
    target, with the column missing in a share of all test searches.
    """
    import pandas as pd

    from placings.feco import coverage

    rows = store.parts.test
    since = rows["time"].max().normalize() - pd.Timedelta(days=DARK_DAYS - 1)
    late = rows["time"] >= since
    table = rows[["search_id", "time", "platform", DARK]].assign(
        when=np.where(late, f"last {DARK_DAYS} days", "before")
    )
    table.loc[late & (table["platform"] == DARK_PLATFORM), DARK] = np.nan
    found = coverage(table, [DARK], rule="non_null", event="search_id", by=["platform", "when"]).to_pandas()
    say(
        f"   SIMULATED: {DARK} (how popular a place is) is lost on {DARK_PLATFORM} for {DARK_DAYS} days. "
        "Share of the searches that have it:\n"
    )
    shown = found.assign(coverage=[f"{share:.0%}" for share in found["coverage"]])
    say(shown[["platform", "when", "coverage", "events"]].to_string(index=False))
    cost = [_lose(store, served, drop) for drop in (0.25, 0.5, 1.0)]
    told = ", ".join(
        f"{row['drop']:.0%} of the searches {-row['lost']:+.4f} [{-row['high']:+.4f}, {-row['low']:+.4f}]"
        for row in cost
    )
    say(f"\n   SIMULATED: MRR on the true target lost without it, of {cost[0]['mrr']:.4f}: {told}")
    shares = found.assign(low=found["low"].astype(float)).to_dict("records")
    return {
        "feature": DARK,
        "where": f"{DARK_PLATFORM}, last {DARK_DAYS} days",
        "shares": shares,
        "cost": cost,
    }


def _lose(store: StudyCells, served: Reranker, drop: float) -> dict[str, Any]:
    """What the re-ranker loses when a share of the test searches lacks the column."""
    rows = ask_rows(store.parts.test, store.settings)
    offsets = find_offsets(rows)
    truth = rows["is_target"].to_numpy(dtype=np.float64)
    rng = np.random.default_rng(store.settings.seed)
    dark = np.repeat(rng.permutation(len(offsets) - 1) < drop * (len(offsets) - 1), np.diff(offsets))
    values = [
        invert_ranks(find_ranks(served.score(each), truth, offsets), absent=0.0)
        for each in (rows, rows.assign(**{DARK: rows[DARK].where(~dark)}))
    ]
    seed, sessions = store.settings.seed, find_sessions(rows, offsets)
    facts = compare_two(*values, draws=store.settings.bootstrap, seed=seed, sessions=sessions)
    p = float(flip_signs((values[1] - values[0])[:, None], random_state=seed, clusters=sessions)[0])
    return {
        "drop": drop, "mrr": facts["engine"], "lost": -facts["difference"], "low": -facts["high"],
        "high": -facts["low"], "p": p,
    }  # fmt: skip


def _make_features() -> Any:
    from placings.places import place_features

    return place_features()
