"""The simulated log of place searches: real lists, known truth, the contract of the two logs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from towns import TownEngine, make_towns

from placings.core.errors import BadInput, UnknownName
from placings.logs.facts import clean_rows, gather_searches
from placings.logs.joins import join_logs
from placings.places.place import Place
from placings.report.log_words import count_tiles
from placings.rerank import Focus, Hit
from placings.simulate.click_models import PositionBased
from placings.simulate.people import Behaviour, measure_apart
from placings.simulate.places_log import PlaceLog, judge_hit, simulate_log

PLACES = make_towns()
BY_ID = {place.id: place for place in PLACES}


@pytest.fixture(scope="module")
def engine() -> TownEngine:
    return TownEngine(PLACES)


@pytest.fixture(scope="module")
def log(engine: TownEngine) -> PlaceLog:
    return simulate_log(PLACES, engine, 1500, random_state=0)


@pytest.fixture(scope="module")
def searches(log: PlaceLog) -> pd.DataFrame:
    """One row a search, with truth, the clicked item if any, and the chain's step."""
    frame = log.searches.to_pandas().merge(log.truth.to_pandas(), on="search_id")
    clicked = log.actions.to_pandas().rename(columns={"item_id": "clicked", "time": "clicked_at"})
    return frame.merge(clicked[["search_id", "clicked", "clicked_at"]], on="search_id", how="left")


def test_every_list_is_the_engine_s_own_answer(log: PlaceLog) -> None:
    engine = TownEngine(PLACES)
    for row in log.searches.slice(0, 150).to_pylist():
        focus = None if row["focus_lat"] is None else (row["focus_lat"], row["focus_lon"])
        hits = engine.search(row["query"], focus, 40)
        assert [each["item_id"] for each in row["results"]] == [hit.id for hit in hits]
        assert [each["position"] for each in row["results"]] == list(range(1, len(hits) + 1))
        assert [each["score"] for each in row["results"]] == [hit.score for hit in hits]


def test_there_are_as_many_searches_as_asked_for_and_little_more(log: PlaceLog) -> None:
    assert 1500 <= log.searches.num_rows < 1800
    assert log.truth["search_id"].to_pylist() == log.searches["search_id"].to_pylist()
    assert len(set(log.searches["search_id"].to_pylist())) == log.searches.num_rows


def test_the_same_seed_gives_the_same_log_and_another_seed_another(engine: TownEngine) -> None:
    one, same, other = (simulate_log(PLACES, engine, 120, random_state=seed) for seed in (3, 3, 4))
    assert one.searches.equals(same.searches)
    assert one.actions.equals(same.actions)
    assert one.truth.equals(same.truth)
    assert not one.searches.equals(other.searches)


def test_a_longer_log_holds_the_sessions_of_a_shorter_one(log: PlaceLog, engine: TownEngine) -> None:
    short = simulate_log(PLACES, engine, 120, random_state=0).searches
    columns = ["session_id", "time", "query"]
    long = {tuple(row.values()) for row in log.searches.select(columns).to_pylist()}
    assert all(tuple(row.values()) in long for row in short.select(columns).to_pylist())


def test_columns_and_types_are_those_of_the_schema(log: PlaceLog) -> None:
    assert log.searches.column_names == [
        "search_id", "time", "session_id", "user_id", "query", "focus_lat", "focus_lon", "target", "platform",
        "surface", "results",
    ]  # fmt: skip
    assert log.searches.schema.field("time").type == pa.timestamp("us")
    item = log.searches.schema.field("results").type.value_type
    assert {"item_id", "position", "score", "name", "locality", "type", "lat", "lon", "weight", "zone"} <= {
        each.name for each in item
    }
    assert log.actions.column_names == ["search_id", "item_id", "time", "action"]
    assert log.truth.column_names == ["search_id", "target_id", "kind"]
    assert set(log.truth["kind"].to_pylist()) == {"prefix", "full", "typo", "detail"}
    assert set(log.searches["target"].to_pylist()) == {"origin", "destination", None}
    assert set(log.searches["platform"].to_pylist()) == {"android", "ios", "web"}


def test_logs_stand_in_the_order_of_time_and_a_click_follows_its_search_soon(searches: pd.DataFrame) -> None:
    assert searches["time"].is_monotonic_increasing
    waited = (searches["clicked_at"] - searches["time"]).dropna().dt.total_seconds()
    assert waited.between(0.05, 120).all()


def test_a_session_is_one_person_s_and_ends_with_its_only_click(searches: pd.DataFrame) -> None:
    for session, chain in searches.groupby("session_id"):
        assert chain["user_id"].nunique() == 1
        assert str(session).startswith(chain["user_id"].iloc[0])
        assert chain["target_id"].nunique() == 1
        assert chain["clicked"].notna().sum() <= 1
        assert chain["clicked"].iloc[:-1].isna().all()
        assert chain["time"].diff().dt.total_seconds().dropna().between(0.0, 31.0).all()


def test_texts_grow_from_three_characters_and_most_chains_are_prefixes(searches: pd.DataFrame) -> None:
    first = searches.groupby("session_id")["query"].first()
    assert (first.str.len() >= 3).all()  # no name here is shorter
    grown = [
        later.startswith(earlier)
        for _, chain in searches.groupby("session_id")
        for earlier, later in zip(chain["query"], chain["query"].iloc[1:], strict=False)
    ]
    assert 0.5 < np.mean(grown) < 1.0
    assert (searches["query"] == searches["query"].str.strip()).all()


def test_a_clean_prefix_or_name_finds_its_target_and_kinds_say_what_the_text_is(
    searches: pd.DataFrame,
) -> None:
    from towns import fold

    for kind in ("prefix", "full"):
        rows = searches[searches["kind"] == kind]
        right = [
            fold(BY_ID[row.target_id].name).startswith(fold(row.query))
            or any(fold(name).startswith(fold(row.query)) for name in BY_ID[row.target_id].names)
            for row in rows.itertuples()
        ]
        assert np.mean(right) > 0.8  # the rest: abbreviations, and the locality typed first
    lengths = searches.groupby("kind")["query"].apply(lambda texts: texts.str.len().mean())
    assert lengths["prefix"] < lengths["full"] < lengths["detail"]


def test_long_queries_occur(searches: pd.DataFrame) -> None:
    length = searches["query"].str.len()
    assert (length.between(21, 40)).mean() > 0.05
    assert searches["query"].str.contains(r"\d+,? 7600\d ").any()  # an address with its postcode


def test_clicks_are_mostly_on_the_target_and_always_on_something_shown(searches: pd.DataFrame) -> None:
    clicked = searches.dropna(subset=["clicked"])
    assert 0.2 < len(clicked) / len(searches) < 0.7
    assert 0.85 < (clicked["clicked"] == clicked["target_id"]).mean() < 1.0  # noise is there
    for row in clicked.itertuples():
        assert row.clicked in [each["item_id"] for each in row.results]


def test_some_sessions_fail_and_longer_ones_more(searches: pd.DataFrame) -> None:
    served = searches.groupby("session_id")["clicked"].apply(lambda clicks: clicks.notna().any())
    assert 0.5 < served.mean() < 0.99


def test_who_hides_has_no_position_in_any_search(searches: pd.DataFrame) -> None:
    shared = searches.groupby("user_id")["focus_lat"].apply(lambda values: values.notna().mean())
    assert set(shared) == {0.0, 1.0}
    assert (searches["focus_lat"].isna() == searches["focus_lon"].isna()).all()


def test_the_engine_is_asked_with_the_position_that_is_logged() -> None:
    engine = TownEngine(PLACES)
    log = simulate_log(PLACES, engine, 60, k=7, random_state=1)
    asked = {(text, focus) for text, focus, k in engine.asked if k == 7}
    assert len(engine.asked) == log.searches.num_rows
    for row in log.searches.to_pylist():
        focus = None if row["focus_lat"] is None else (row["focus_lat"], row["focus_lon"])
        assert (row["query"], focus) in asked
        assert len(row["results"]) <= 7


class Turned(TownEngine):
    """The best hit among two decoys, at the first, second or third position by the text's length."""

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        places = [Place.of_hit(hit) for hit in super().search(text, focus, 1)]
        places += [Place("x", "Decoy", 49.0, 8.4), Place("y", "Decoy", 49.0, 8.4)]
        turn = len(text) % 3
        return [place.to_hit(1.0, rank) for rank, place in enumerate(places[-turn:] + places[:-turn], 1)]


def test_the_target_is_clicked_as_often_as_its_position_is_looked_at() -> None:
    model = PositionBased(eta=1.0, certainty=1.0, noise=0.0)
    calm = Behaviour(pasted=1.0)  # whole texts, each of them looked at
    log = simulate_log(PLACES, Turned(PLACES), 1500, clicks=model, behaviour=calm, random_state=0)
    rows = log.to_rows(unsuccessful="negatives")
    clicked = rows[rows["is_target"] == 1.0].groupby("position")["label"].agg(["mean", "size"])
    assert clicked.loc[1, "mean"] == 1.0
    for position in (2, 3):
        spread = 1.0 / np.sqrt(clicked.loc[position, "size"])  # two standard errors and more
        assert clicked.loc[position, "size"] > 40
        assert clicked.loc[position, "mean"] == pytest.approx(1 / position, abs=1.5 * spread)


def test_without_noise_every_click_is_on_the_target_or_its_twin(engine: TownEngine) -> None:
    log = simulate_log(PLACES, engine, 200, clicks=PositionBased(noise=0.0), random_state=2)
    truth = dict(zip(*log.truth.select(["search_id", "target_id"]).to_pydict().values(), strict=True))
    assert log.actions.num_rows > 30
    for row in log.actions.to_pylist():
        assert row["item_id"] == truth[row["search_id"]]


def test_a_place_of_the_same_name_close_by_serves_nearly_as_well() -> None:
    meant = Place("a", "Marktplatz", 49.0, 8.4)
    near = Place("b", "marktplatz", 49.001, 8.4)
    far = Place("c", "Marktplatz", 49.01, 8.4)
    assert measure_apart(meant, near) < 0.2 < measure_apart(meant, far)
    hits = (meant, near, far, Place("d", "Zoo", 49.0, 8.4))
    assert [judge_hit(place.to_hit(1.0, 1), meant) for place in hits] == [1.0, 0.8, 0.0, 0.0]


@pytest.mark.parametrize("clicks", ["position", "cascade", "trust"])
def test_each_click_model_makes_a_log(clicks: str, engine: TownEngine) -> None:
    log = simulate_log(PLACES, engine, 80, clicks=clicks, random_state=0)
    assert log.actions.num_rows > 10
    assert log.settings["clicks"]["model"].lower().startswith(clicks)


def test_an_engine_that_finds_nothing_makes_a_log_without_clicks() -> None:
    class Nothing:
        def search(self, text: str, focus: object = None, k: int = 40, layers: object = None) -> list[Hit]:
            return []

    log = simulate_log(PLACES, Nothing(), 50, random_state=0)
    assert log.actions.num_rows == 0
    assert log.to_rows().empty
    assert log.to_rows(unsuccessful="negatives").empty
    with pytest.raises(BadInput, match="none of them clicked. Does the engine know these places"):
        simulate_log(PLACES, Nothing(), 1, count="clicked", random_state=0)


def test_searches_with_a_click_may_be_counted_instead(engine: TownEngine) -> None:
    log = simulate_log(PLACES, engine, 60, count="clicked", random_state=0)
    assert 60 <= log.actions.num_rows < 90
    assert log.searches.num_rows > 1.5 * log.actions.num_rows
    with pytest.raises(BadInput, match='count must be "searches" or "clicked"'):
        simulate_log(PLACES, engine, 60, count="clicks")  # type: ignore[arg-type]


def test_progress_is_told_up_to_the_end(engine: TownEngine) -> None:
    heard: list[tuple[int, int]] = []
    simulate_log(PLACES, engine, 60, random_state=0, progress=lambda *told: heard.append(told))
    assert heard[-1] == (60, 60)
    assert heard == sorted(heard)


# -- rows and files -----------------------------------------------------------------------------------


def test_rows_are_one_an_item_with_label_kind_and_the_target(log: PlaceLog) -> None:
    rows = log.to_rows()
    assert rows.columns[:9].tolist() == [
        "search_id", "session_id", "time", "query", "focus_lat", "focus_lon", "target", "platform", "surface",
    ]  # fmt: skip
    assert {"item_id", "position", "score", "name", "label", "kind", "is_target"} <= set(rows.columns)
    assert rows["time"].dtype == "datetime64[us]"
    assert (rows.groupby("search_id")["label"].sum() == 1.0).all()  # one click each
    assert rows["search_id"].nunique() == log.actions.num_rows
    assert (rows.groupby("search_id")["is_target"].sum() <= 1.0).all()
    ordered = rows.sort_values(["time", "search_id", "position"], kind="stable")
    assert ordered.index.equals(rows.index)


def test_negatives_keep_every_search_that_showed_something(log: PlaceLog) -> None:
    rows = log.to_rows(unsuccessful="negatives")
    shown = sum(len(results) > 0 for results in log.searches["results"].to_pylist())
    assert rows["search_id"].nunique() == shown
    assert rows.loc[~rows["successful"], "label"].sum() == 0.0
    with pytest.raises(UnknownName, match="no unsuccessful 'drop'"):
        log.to_rows(unsuccessful="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize("unsuccessful", [pytest.param("report", marks=pytest.mark.slow), "negatives"])
def test_rows_are_those_of_the_join(unsuccessful: Any, log: PlaceLog) -> None:
    own = log.to_rows(unsuccessful=unsuccessful)
    with join_logs(log.searches, log.actions, truth=log.truth, unsuccessful=unsuccessful) as joined:
        rows = joined.rows
    pd.testing.assert_frame_equal(own, rows)  # the same columns too, `outcome` and the chains among them


@pytest.mark.slow
def test_exploring_the_log_and_exploring_the_join_of_its_files_tell_the_same_counts(
    log: PlaceLog, tmp_path: Path
) -> None:
    searches, actions, truth = log.write(tmp_path)
    with join_logs(searches, actions, truth=truth, unsuccessful="negatives") as joined:
        joined.write(tmp_path / "rows.parquet")
        outcomes = joined.report.outcomes
    told = []
    for rows in (log.to_rows(unsuccessful="negatives"), pq.read_table(tmp_path / "rows.parquet")):
        frame, _ = clean_rows(rows)
        told.append(count_tiles(frame, gather_searches(frame), None))
    assert told[0] == told[1]
    counts = {
        word: int(number.replace(",", ""))
        for number, word, _ in told[0]
        if number[-1].isdigit() and "." not in number
    }
    empty = [each["search_id"] for each in log.searches.to_pylist() if not each["results"]]  # in no row
    assert counts["searches"] + len(empty) == sum(outcomes.values())
    assert counts["searches with a click"] == outcomes["successful"] == log.actions.num_rows
    lost = counts["failed searches"] + counts["abandoned prefixes"]
    assert outcomes["failed"] + outcomes["abandoned"] - len(empty) == lost
    assert counts["abandoned prefixes"] > 100


def test_written_as_parquet_it_is_read_back_as_it_was(log: PlaceLog, tmp_path: Path) -> None:
    files = log.write(tmp_path / "log")
    assert [file.name for file in files] == ["searches.parquet", "actions.parquet", "truth.parquet"]
    assert pq.read_table(files[0]).equals(log.searches)
    assert pq.read_table(files[1]).equals(log.actions)


def test_written_as_lines_times_are_utc_text_and_nothing_is_nan(log: PlaceLog, tmp_path: Path) -> None:
    log = PlaceLog(log.searches.slice(0, 50), log.actions, log.truth, log.settings)
    plain = log.write(tmp_path, "jsonl")[0].read_text(encoding="utf-8").splitlines()
    packed = gzip.decompress(log.write(tmp_path, "jsonl.gz")[0].read_bytes()).decode().splitlines()
    assert plain == packed
    first = json.loads(plain[0], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    told = log.searches.slice(0, 1).to_pylist()[0]
    assert first["time"].endswith("Z")
    assert pd.Timestamp(first["time"]).tz_localize(None) == told["time"]
    assert first["results"] == told["results"]
    again = log.write(tmp_path / "again", "jsonl.gz")[0].read_bytes()
    assert again == (tmp_path / "searches.jsonl.gz").read_bytes()
    with pytest.raises(BadInput, match="form must be one of"):
        log.write(tmp_path, "csv")  # type: ignore[arg-type]


def test_a_summary_says_that_it_is_simulated(log: PlaceLog) -> None:
    assert log.describe().startswith(f"SIMULATED: {log.searches.num_rows:,} searches")


def test_bad_arguments_are_refused(engine: TownEngine) -> None:
    with pytest.raises(BadInput, match="searches must be a whole number"):
        simulate_log(PLACES, engine, 0)
    with pytest.raises(BadInput, match="k must be a whole number"):
        simulate_log(PLACES, engine, 10, k=0)
    with pytest.raises(UnknownName, match="no click model"):
        simulate_log(PLACES, engine, 10, clicks="random")
    with pytest.raises(BadInput, match="at least one place"):
        simulate_log([], engine, 10)


def test_from_far_away_a_place_is_called_by_another_name_more_often() -> None:
    places = [
        Place("east", "Eastern", 50.0, 60.0, "locality", weight=1000.0, names=("Zorbia",)),
        Place("west", "Western", 50.0, 0.0, "locality", weight=1000.0, names=("Zumbia",)),
    ]
    behaviour = Behaviour(hidden=0.0, alternates=0.1, slips=0.0, far=0.5, repeats=0.0)
    log = simulate_log(places, TownEngine(places), 3000, behaviour=behaviour, random_state=0)
    frame = log.searches.to_pandas().merge(log.truth.to_pandas(), on="search_id")
    frame = frame.drop_duplicates("session_id")
    abroad = (frame["focus_lon"] > 30) != (frame["target_id"] == "east")
    other = frame["query"].str.lower().str.startswith("z")
    assert other[~abroad].mean() == pytest.approx(0.1, abs=0.04)
    assert other[abroad].mean() == pytest.approx(0.5, abs=0.08)
