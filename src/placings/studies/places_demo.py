"""The demo: real places, people who look for them, a log, four rankers, a number that goes dark, one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    Cell,
    Floats,
    Grid,
    flip_signs,
    format_difference,
    format_interval,
    format_mean,
    plain_value,
    render_grid,
    write_json,
    write_text,
)
from placings.logs import PAST, ClickLog, add_past_clicks, find_offsets
from placings.rankers import MeanRanker
from placings.rerank import Reranker, describe_searches, list_members
from placings.studies.places import (
    DEFAULT,
    MODEL,
    ask_rows,
    count_types,
    judge_served,
    save_and_load,
    tell_depth,
)
from placings.studies.places_lines import TRANSFORMS, choose_line, judge_lines
from placings.studies.places_measures import (
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
    describe_settings,
    judge_engine,
)

if TYPE_CHECKING:
    import pandas as pd

    from placings.places import Place, SqliteEngine

Say = Callable[[str], None]
LINEAR = "linear"
NAMES = {"lightgbm": "LightGBM", "neural": "neural"}
# The default re-ranker trains eight networks for 2,000 steps and 300 trees, four times over for its guard.
SETTINGS = StudySettings(
    split="time", rounds=120, neural_steps=400, bootstrap=1000, least=50, depths=(10, 20, 40)
)
NETWORKS = 2
EVENTS = "events.parquet"  # the log with one number dark
SHORTENED = (
    "Training is shortened: {networks} networks of {steps:,} steps and {rounds:,} trees at most; "
    "the default has 8, 2,000 and 300."
)
DARK_DAYS, DARK_PLATFORM = 7, "android"  # lost where, and for how long
LEAST_EVENTS = 10  # searches of a platform and day that an alert needs; the demo's days are short of them
# Numbers that nobody sees in a list of results, so that nobody misses them: columns, and what they are.
SOURCES: dict[str, tuple[tuple[str, ...], str]] = {
    "past_clicks": ((PAST,), "how often a place was clicked before"),
    "score": (("score",), "the engine's own score"),
    "weight": (("weight",), "how popular a place is"),
    "coordinates": (("lat", "lon"), "where a place is"),
}


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
        f"\n4. Who ranks better? Trained on {parts.counts['train']:,} searches with a click, judged on the "
        f"last {parts.counts['test']:,}"
    )
    told = SHORTENED.format(networks=NETWORKS, steps=settings.neural_steps, rounds=settings.rounds)
    say(f"   {told}\n")
    store = StudyCells(parts, settings, FeatureData(parts, settings, {RELATIONS: _make_features}), None)
    result, served = judge_rankers(store, out / MODEL)
    result["shortened"] = told
    say(tell_models(result))
    say("\n5. A number goes dark. Which one, and what does it cost?")
    result["coverage"] = show_dark(store, served, frame, out, say)
    write_text(out / "demo.json", write_json(plain_value(result)) + "\n")
    return result


def open_index(out: Path, places: Path | None, say: Say) -> tuple[list[Place], SqliteEngine]:
    """Real places, and an engine that finds them."""
    from placings.places import SqliteEngine, build_index, read_geonames, read_places

    known = read_geonames() if places is None else read_places(places)
    index = out / "places.db"
    build_index(known, index)
    source = "GeoNames (CC BY 4.0)" if places is None else str(places)
    say(f"1. The engine: {len(known):,} places of {source} in {index}")
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
        f"\n3. Searches and clicks joined, in {rows}\n   {report.notes['groups']:,} lists of "
        f"{report.notes['rows']:,} results ({told}); left out {report.broken:,}"
    )
    return frame


def judge_rankers(store: StudyCells, path: Path) -> tuple[dict[str, Any], Reranker]:
    """Engine, line, trees, network and the guarded re-ranker, on the same searches of the last days.

    The line is the best of a ridge over each transform on validation searches, trained on the same lists.
    The re-ranker is saved in `path`, loaded again, and judged as it will be served.
    """
    parts, settings = store.parts, store.settings
    trained = Reranker(
        features=_make_features(), ranker=MeanRanker(members=list_short(settings)), pool=settings.pool,
        random_state=settings.seed,
    )  # fmt: skip
    with train_on_one_thread():
        trained.fit(ClickLog(parts.train_log), valid=ClickLog(parts.valid_log))
    served, digest = save_and_load(trained, path)
    mean = trained.ranker_
    assert isinstance(mean, MeanRanker)
    guard = served.guard_
    assert guard is not None
    store.feature_data.fitted[RELATIONS] = served.features_
    test = store.feature_data.data(RELATIONS, "test")
    cells: dict[str, dict[str, Any]] = {ENGINE: judge_engine(store)}
    lines = judge_lines(store, trained, ask_rows(parts.test, settings))
    best = choose_line(lines)
    cells[LINEAR] = lines[best]
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
    depth = tell_depth(store, served)
    result = {
        "simulated": True, "settings": describe_settings(settings), "counts": parts.counts,
        "models": describe_models(cells, ENGINE, **how), "linear": best,
        "slices": judge_slices(
            cells[ENGINE], cells[DEFAULT], context, least=settings.least, **how
        ),
        "types": types if len(types := count_types(parts)) > 1 else {},  # of one type there is nothing to say
        "depth": depth["depth"], "oracle": depth["oracle"],
        "left_to_engine": guard.left_to_engine(context, len(test)), "guard": guard.to_state(),
        "default": {"chosen": list(trained.valid_)[-1], "valid": trained.valid_},
        "served": {**facts, "digest": digest},
    }  # fmt: skip
    return dict(plain_value(result)), served


def list_short(settings: StudySettings) -> dict[str, dict[str, Any]]:
    """The members of the default re-ranker with less training: the demo should end while one watches."""
    members = list_members(settings.seed, rounds=settings.rounds, steps=settings.neural_steps)
    members["lightgbm"] |= {"early_stopping": 30, "n_jobs": 1}  # threads wait for each other on so few rows
    members["neural"] |= {"members": NETWORKS, "check_every": 50, "patience": 3}
    return members


@contextmanager
def train_on_one_thread() -> Iterator[None]:
    """Let PyTorch compute on one thread: with networks this small several of them mostly wait for each other,
    and on a busy machine they take many times as long."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tell_models(result: dict[str, Any]) -> str:
    """A row a ranker: MRR on the place that was meant, and the difference to the engine."""
    rows = []
    for row in result["models"]:
        other = row["name"] != ENGINE
        ends = format_interval(row["difference_low_true"], row["difference_high_true"], signed=True)
        rows.append((
            Cell(row["name"]), Cell(format_mean(row["mrr_true"])),
            Cell(format_difference(row["difference_true"]) if other else "-"), Cell(ends if other else "-"),
        ))  # fmt: skip
    notes = (
        f"linear: a {result['linear']}, of {len(TRANSFORMS)} transforms the best on validation searches.",
        "MRR: 1 if the place that was meant stands first, 1/2 if second; the mean over all searches.",
    )
    return render_grid(Grid(("SIMULATED", "MRR", "to the engine", "95 % interval"), tuple(rows), notes))


def show_dark(
    store: StudyCells, served: Reranker, frame: pd.DataFrame, out: Path, say: Say
) -> dict[str, Any]:
    """Take a number away on one platform for the last days: the alert it raises, and what the loss costs.

    Of `SOURCES` the one is taken whose loss costs most on validation searches; what it costs is then told of
    test searches, which had no part in the choice. Every feature that is made of it goes dark with it. Costs
    are judged on the place that was meant, with the number missing in a share of all test searches.
    """
    known, tested = _list_validation(store), store.parts.test
    tried = sorted(
        (
            {"source": name, "told": SOURCES[name][1], **_lose(store, served, known, name, 1.0)}
            for name in SOURCES
        ),
        key=lambda row: -row["lost"],
    )
    name = tried[0]["source"]
    found, alert = _watch(frame, name, out / EVENTS)
    part: dict[str, Any] = {
        "feature": name, "told": SOURCES[name][1], "where": f"{DARK_PLATFORM}, last {DARK_DAYS} days",
        "alert": alert, "daily": found, "tried": tried,
        "cost": [_lose(store, served, tested, name, drop) for drop in (0.25, 0.5, 1.0)],
    }  # fmt: skip
    say(
        f"   Taken away on {DARK_PLATFORM} for {DARK_DAYS} days: {name}, {SOURCES[name][1]}. Its loss\n"
        f"   costs most on validation searches. The log without it: {out / EVENTS}\n"
    )
    say(tell_tried(tried))
    return part


def tell_tried(tried: list[dict[str, Any]]) -> str:
    """A row a number: what MRR loses without it on validation searches."""
    rows = tuple(
        (
            Cell(f"{row['source']}: {row['told']}"), Cell(format_difference(-row["lost"])),
            Cell(format_interval(-row["high"], -row["low"], signed=True)),
        )
        for row in tried
    )  # fmt: skip
    return render_grid(Grid(("SIMULATED: without", "change of MRR", "95 % interval"), rows))


def _list_validation(store: StudyCells) -> pd.DataFrame:
    """Validation searches with two results or more, past clicks as training had them."""
    rows = store.parts.valid_log
    rows = rows[rows["position"] <= store.settings.pool]
    rows = rows[rows.groupby("search_id", sort=False)["item_id"].transform("size") >= 2]
    return add_past_clicks(rows.reset_index(drop=True), store.parts.train_log)


def _watch(frame: pd.DataFrame, name: str, path: Path) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Write the log as the one on call sees it, without the number; its coverage by day, and the alert."""
    import pandas as pd

    from placings.feco import AlertSettings, coverage, find_alerts

    end = frame["time"].max().normalize()  # the last day is not whole
    columns = [column for names, _ in SOURCES.values() for column in names]
    seen = add_past_clicks(frame, frame)[["search_id", "time", "platform", *columns]]
    seen = seen[seen["time"] < end].reset_index(drop=True)
    lost = (seen["time"] >= end - pd.Timedelta(days=DARK_DAYS)) & (seen["platform"] == DARK_PLATFORM)
    seen = seen.assign(**{each: seen[each].astype(np.float64).where(~lost) for each in SOURCES[name][0]})
    seen.to_parquet(path, index=False)
    daily = coverage(seen, columns, rule="non_null", event="search_id", by="platform", time="time", until=end)
    alerts = find_alerts(daily, settings=AlertSettings(min_events=LEAST_EVENTS), watermark=end)
    days = daily.to_pandas()
    days = days[days["feature"] == SOURCES[name][0][0]]
    shown = days[["platform", "window", "coverage", "events"]].astype({"window": str})
    kept = [{str(name): value for name, value in row.items()} for row in shown.to_dict("records")]
    return kept, alerts.incidents[0].to_dict() if alerts.incidents else None


def _lose(store: StudyCells, served: Reranker, rows: pd.DataFrame, name: str, drop: float) -> dict[str, Any]:
    """What the re-ranker loses when a share of these searches lacks the number."""
    offsets = find_offsets(rows)
    rng = np.random.default_rng(store.settings.seed)
    dark = np.repeat(rng.permutation(len(offsets) - 1) < drop * (len(offsets) - 1), np.diff(offsets))
    gone = {column: rows[column].astype(np.float64).where(~dark) for column in SOURCES[name][0]}
    values = [_judge(served, each, offsets) for each in (rows, rows.assign(**gone))]
    seed, sessions = store.settings.seed, find_sessions(rows, offsets)
    facts = compare_two(*values, draws=store.settings.bootstrap, seed=seed, sessions=sessions)
    p = float(flip_signs((values[1] - values[0])[:, None], random_state=seed, clusters=sessions)[0])
    return {
        "drop": drop, "searches": facts["searches"], "mrr": facts["engine"], "lost": -facts["difference"],
        "low": -facts["high"], "high": -facts["low"], "p": p,
    }  # fmt: skip


def _judge(served: Reranker, rows: pd.DataFrame, offsets: Any) -> Floats:
    """The reciprocal rank of the place that was meant, search by search."""
    truth = rows["is_target"].to_numpy(dtype=np.float64)
    return invert_ranks(find_ranks(served.score(rows), truth, offsets), absent=0.0)


def _make_features() -> Any:
    from placings.places import place_features

    return place_features()
