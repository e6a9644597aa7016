"""Coverage against a slow, obvious count; what it says of its columns, its events and its windows."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput, PlacingsWarning, UnknownName
from placings.data.ranking import RankingData
from placings.data.reading import write
from placings.feco.score import coverage

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ibis")

NAN = float("nan")


@pytest.fixture
def log() -> Any:
    """Forty searches of five rows over three days, in two regions, with zeros, NaN and negative numbers."""
    rng = np.random.default_rng(1)
    rows = 200
    search = np.repeat(np.arange(40), 5)
    clicks = rng.poisson(0.3, rows).astype(float)
    clicks[rng.random(rows) < 0.2] = NAN
    return pd.DataFrame(
        {
            "search": search,
            "rank": np.tile(np.arange(1, 6), 40),
            "ts": pd.Timestamp("2024-05-01") + pd.to_timedelta(search * 6480, unit="s"),
            "region": np.where(search % 2 == 0, "eu", "us"),
            "clicks": clicks,
            "score": rng.normal(size=rows).round(1),
            "stock": rng.integers(0, 3, rows),
        }
    )


def is_covered(values: Any, rule: Any) -> Any:
    """The slow, obvious rule."""
    there = ~values.isna()
    if rule == "non_null":
        return there
    if rule == "non_zero":
        return there & (values != 0)
    limit = {"positive": 0.0, "mean": values.mean(), "median": values.median()}.get(rule, rule)
    return there & (values > limit)


# -- the share --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["non_zero", "non_null", "mean", "median", 0.5, -1.0])
def test_a_rows_share_is_what_counting_gives(log: Any, rule: Any) -> None:
    found = coverage(log, ["clicks", "score", "stock"], rule=rule)
    for name in found.features:
        assert found[name] == pytest.approx(is_covered(log[name], rule).mean()), name


@pytest.mark.parametrize("within", ["any", "all", 3, "top:2", "all top:2"])
def test_an_events_share_is_what_counting_gives(log: Any, within: Any) -> None:
    top = int(str(within).rpartition(":")[2]) if str(within)[-1].isdigit() else 5
    first = log[log["rank"] <= top]
    grouped = is_covered(first["clicks"], "non_zero").groupby(first["search"])
    expected = (grouped.all() if "all" in str(within) else grouped.any()).mean()
    found = coverage(log, "clicks", event="search", within=within, position="rank")
    assert found["clicks"] == pytest.approx(expected)
    assert found.to_pandas()["events"].tolist() == [40]


def test_segments_and_days_are_what_counting_gives(log: Any) -> None:
    frame = coverage(log, "clicks", event="search", by="region", time="ts").to_pandas()
    assert list(frame) == ["feature", "region", "window", "coverage", "low", "high", "events", "covered"]
    event = log.assign(there=is_covered(log["clicks"], "non_zero")).groupby("search")
    event = event.agg(there=("there", "any"), region=("region", "first"), ts=("ts", "min"))
    expected = event.groupby(["region", event["ts"].dt.floor("D")])["there"].agg(["mean", "size", "sum"])
    assert frame["coverage"].tolist() == pytest.approx(expected["mean"].tolist())
    assert frame["events"].tolist() == expected["size"].tolist()
    assert frame["covered"].tolist() == expected["sum"].tolist()
    assert frame["window"].dt.tz is None
    assert ((frame["low"] <= frame["coverage"]) & (frame["coverage"] <= frame["high"])).all()


def test_nan_null_and_zero_are_uncovered_and_infinity_is_a_value() -> None:
    table = pa.table({"x": pa.array([1.0, NAN, None, 0.0, -0.0, float("inf"), float("-inf"), -2.0])})
    shares = {"non_zero": 4, "non_null": 6, -3.0: 5, 0.5: 2}
    for rule, count in shares.items():
        assert coverage(table, rule=rule)["x"] == count / 8
    with pytest.warns(PlacingsWarning, match="negative"):
        assert coverage(table, rule="positive")["x"] == 2 / 8


def test_nan_in_parquet_is_uncovered_where_statistics_hide_it(tmp_path: Path) -> None:
    """No zero and no NULL: an engine may conclude from the file's ranges that all are there."""
    pd.DataFrame({"x": [1.0, 2.0, NAN, 3.0], "y": np.float32([1, NAN, NAN, 2])}).to_parquet(
        tmp_path / "x.parquet"
    )
    for rule in ("non_zero", "non_null", 0.5, -1.0, "positive"):
        found = coverage(tmp_path / "x.parquet", rule=rule)
        assert (found["x"], found["y"]) == (0.75, 0.5), rule


def test_float32_is_compared_as_the_number_it_is() -> None:
    """float32(0.1) is 0.100000001490116, which lies above 0.1."""
    assert coverage({"x": np.float32([0.1, 0.0])}, rule=0.1)["x"] == 0.5


def test_a_constant_is_never_above_its_mean() -> None:
    assert coverage({"x": [0.1] * 10}, rule="mean")["x"] == 0.0


def test_thresholds_come_from_the_reference_and_are_told() -> None:
    found = coverage({"x": [1.0, 2.0, 3.0]}, rule="mean", reference={"x": [2.5, NAN]})
    assert found.thresholds == {"x": 2.5}
    assert found["x"] == pytest.approx(1 / 3)
    assert "above its mean, 2.5" in found.table()
    assert coverage({"x": [NAN, NAN]}, rule="median")["x"] == 0.0


def test_row_shares_of_lists_have_wider_intervals_than_rows() -> None:
    """Ten lists of ten, each dark or covered as a whole: worth ten events, not a hundred."""
    table = {"search": np.repeat(np.arange(10), 10), "x": np.repeat([1.0, 0.0] * 5, 10)}
    rows = coverage(table, "x").to_pandas().iloc[0]
    lists = coverage(table, "x", event="search", within="rows").to_pandas().iloc[0]
    events = coverage(table, "x", event="search").to_pandas().iloc[0]
    assert rows["coverage"] == lists["coverage"] == events["coverage"] == 0.5
    assert lists["high"] - lists["low"] > 2.5 * (rows["high"] - rows["low"])
    assert lists["low"] == pytest.approx(events["low"], abs=0.03)
    assert (lists["events"], lists["covered"]) == (10, 5.0)


# -- features -----------------------------------------------------------------------------------------------


def test_every_number_that_plays_no_other_part_is_a_feature_and_the_rest_is_told(log: Any) -> None:
    log["sale"] = True
    found = coverage(log, event="search", time="ts", by="region", position="rank", label="stock")
    assert found.features == ("clicks", "score")
    assert found.left_out == {
        "search": "named as event", "ts": "named as time", "stock": "named as label",
        "rank": "named as position", "region": "named as by", "sale": "true or false; name it to count it",
    }  # fmt: skip
    assert "2 features: clicks, score." in found.table()
    assert coverage(log, ignore=["search", "rank", "stock", "clicks"]).features == ("score",)
    assert coverage(log, "sale")["sale"] == 1.0


def test_a_ranking_data_knows_its_own_parts(tmp_path: Path) -> None:
    data = RankingData.from_arrays([[1.0, 0.0], [NAN, 2.0]], [0, 1], ["a", "b"], feature_names=["f", "g"])
    found = coverage(data)
    assert found.features == ("f", "g")
    assert (found["f"], found["g"]) == (0.5, 0.5)
    assert found.left_out["label"] == "the label, as the table says"
    write(data, tmp_path / "rows.parquet")
    assert coverage(tmp_path / "rows.parquet", event="qid").features == ("f", "g")


def test_features_are_picked_by_importance(tmp_path: Path) -> None:
    from placings.evaluation.importance import rank_importance
    from placings.rankers.lgbm import LightGBMRanker
    from placings.rankers.linear import LinearRanker
    from placings.simulate.rankings import make_ranking

    data = make_ranking(20, n_features=6, random_state=0).data
    trees = LightGBMRanker(rounds=5).fit(data)
    trees.save(tmp_path / "trees")
    best = rank_importance(trees, "gain").names[:2]
    for bundle in (tmp_path / "trees", trees, rank_importance(trees, "gain")):
        found = coverage(data, "top:2", bundle=bundle)
        assert found.features == best
        assert "picked by" in found.notes[0]
    assert len(coverage(data, "top:3", bundle=LinearRanker(loss="ridge").fit(data))) == 3
    with pytest.raises(BadInput, match="Pass bundle="):
        coverage(data, "top:2")
    with pytest.raises(UnknownName, match="column for features, in the table, named"):
        coverage(data.select(data.feature_names[:1]), "top:6", bundle=trees)


def test_a_column_that_is_not_there_is_told_with_its_neighbour(log: Any) -> None:
    for arguments in (
        {"features": ["click"]},
        {"event": "click"},
        {"by": "click"},
        {"time": "click"},
        {"label": "click"},
    ):
        with pytest.raises(UnknownName, match="'click'; did you mean 'clicks'"):
            coverage(log, **arguments)
    with pytest.raises(BadInput, match="'clicks' is named as a feature and as event"):
        coverage(log, ["clicks"], event="clicks")
    with pytest.raises(BadInput, match="by and event must be different"):
        coverage(log, event="search", by="search")
    with pytest.raises(BadInput, match="the result has one of that name"):
        coverage(log.rename(columns={"region": "window"}), by="window")


def test_a_column_without_a_value_is_dark_and_told_apart_from_zeros() -> None:
    table = pa.table(
        {"empty": pa.nulls(3, pa.float64()), "typeless": pa.nulls(3), "nan": [NAN] * 3, "zero": [0.0] * 3}
    )
    found = coverage(table)
    assert found.to_pandas()["coverage"].tolist() == [0.0] * 4
    assert "Without a single value (NULL or NaN everywhere): 'empty', 'typeless', 'nan'." in found.notes
    assert "With values, but covered nowhere: 'zero'." in found.notes
    assert coverage(pd.DataFrame({"x": [None, None], "y": [1, 2]})).features == ("x", "y")


def test_a_csv_column_without_a_value_is_dark_and_one_of_text_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,dark,brand\n1,,a\n0,,\n")
    found = coverage(tmp_path / "log.csv")
    assert found.features == ("x", "dark")
    assert found.left_out == {"brand": "text"}
    assert found["dark"] == 0.0
    (tmp_path / "text.csv").write_text("a,b\nx,y\n")
    with pytest.raises(BadInput, match="no numeric column"):
        coverage(tmp_path / "text.csv")


def test_text_in_a_numeric_column_is_shown(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="feature 'price' .* must be numbers. Got text, such as 'n/a'"):
        coverage(pa.table({"price": ["1.5", "n/a", None]}), ["price"])
    with pytest.raises(BadInput, match="such as '1.5', numbers written as text"):
        coverage(pa.table({"price": ["1.5"]}), ["price"])
    with pytest.raises(BadInput, match="one kind of value"):
        coverage(pd.DataFrame({"price": [1.5, "n/a"]}))
    with pytest.raises(BadInput, match="has no numeric column .* 'price' \\(string\\)"):
        coverage(pa.table({"price": ["1.5"]}))
    (tmp_path / "log.csv").write_text("price\n1.5\nn/a\n")
    with pytest.raises(BadInput, match="such as 'n/a'"):
        coverage(tmp_path / "log.csv", ["price"])


# -- events -----------------------------------------------------------------------------------------------


def test_signed_features_are_warned_of_under_positive(log: Any) -> None:
    with pytest.warns(
        PlacingsWarning, match="1 features have negative values.*'score'.*rule='non_zero'"
    ) as told:
        found = coverage(log, ["clicks", "score"], rule="positive", event="search")
    assert any("negative" in note for note in found.notes)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coverage(log, ["clicks", "stock"], rule="positive")


def test_events_logged_twice_count_once_and_are_told(log: Any) -> None:
    options: dict[str, Any] = {"event": "search", "position": "rank"}
    once = coverage(log, "clicks", **options).to_pandas()
    with pytest.warns(PlacingsWarning, match="200 rows share event and position"):
        twice = coverage(pd.concat([log, log]), "clicks", **options).to_pandas()
    pd.testing.assert_frame_equal(once, twice)


def test_an_event_id_that_comes_back_counts_in_its_first_window(log: Any) -> None:
    again = log[log["search"] == 0].assign(ts=pd.Timestamp("2024-05-03 12:00"))
    with pytest.warns(PlacingsWarning, match="1 events have rows in several windows"):
        frame = coverage(pd.concat([log, again]), "clicks", event="search", time="ts").to_pandas()
    assert frame["events"].sum() == 40
    assert (
        frame["events"].iloc[0]
        == coverage(log, "clicks", event="search", time="ts").to_pandas()["events"].iloc[0]
    )


def test_rows_without_an_event_or_a_time_are_left_out_and_told(log: Any) -> None:
    log["search"] = log["search"].astype("Int64").mask(log["search"] == 3)
    log["ts"] = log["ts"].mask(log["search"] == 5)
    with pytest.warns(PlacingsWarning) as told:
        frame = coverage(log, "clicks", event="search", time="ts").to_pandas()
    assert [str(one.message) for one in told] == [
        "5 rows have no event id and are left out.", "5 rows have no time and are left out.",
    ]  # fmt: skip
    assert frame["events"].sum() == 38


def test_positions_count_from_one(log: Any) -> None:
    with pytest.raises(BadInput, match="position must count from 1.*Got 0 in column 'rank'"):
        coverage(log.assign(rank=log["rank"] - 1), "clicks", event="search", within=3, position="rank")
    with pytest.raises(BadInput, match="needs position="):
        coverage(log, "clicks", event="search", within=3)
    for within in ("most", "top:0", 0, True, "top:x"):
        with pytest.raises(BadInput, match="within must be"):
            coverage(log, "clicks", event="search", within=within, position="rank")


def test_coverage_by_position(log: Any) -> None:
    frame = coverage(log, "clicks", by="position", position="rank", event="search").to_pandas()
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5]
    expected = is_covered(log["clicks"], "non_zero").groupby(log["rank"]).mean()
    assert frame["coverage"].tolist() == pytest.approx(expected.tolist())


def test_a_segment_without_a_value_is_a_segment() -> None:
    frame = coverage(pa.table({"x": [1, 0, 1], "s": ["a", None, None]}), by="s").to_pandas()
    assert frame[["s", "coverage"]].values.tolist() == [["(none)", 0.5], ["a", 1.0]]


# -- time -------------------------------------------------------------------------------------------------


def test_an_empty_day_has_no_coverage_and_is_told(log: Any) -> None:
    log = log[log["ts"].dt.day != 2]
    found = coverage(log, "clicks", event="search", time="ts", by="region")
    frame = found.to_pandas()
    assert frame["events"].tolist() == [7, 0, 6, 7, 0, 7]  # searches 0 to 13 and 27 to 39, even ones in eu
    assert frame["coverage"].isna().tolist() == [False, True, False] * 2
    assert frame["low"].isna().tolist() == [False, True, False] * 2
    assert "Windows without an event (start in UTC): 2024-05-02T00:00." in found.notes


def test_since_and_until_say_the_days_at_the_ends_that_have_nothing(log: Any) -> None:
    found = coverage(log, "clicks", time="ts", since="2024-05-03", until="2024-05-06").to_pandas()
    assert [str(day)[:10] for day in found["window"]] == ["2024-05-03", "2024-05-04", "2024-05-05"]
    assert found["events"].tolist() == [(log["ts"] >= "2024-05-03").sum(), 0, 0]
    with pytest.raises(BadInput, match="since must lie before until"):
        coverage(log, "clicks", time="ts", since="2024-05-03", until="2024-05-03")
    with pytest.raises(BadInput, match="need time="):
        coverage(log, "clicks", since="2024-05-03")
    with pytest.raises(BadInput, match="since must be a date or a time.*Got 'yesterday'"):
        coverage(log, "clicks", time="ts", since="yesterday")


def test_the_last_fraction_of_a_second_belongs_to_its_day() -> None:
    times = pd.to_datetime(["2024-05-01 23:59:59.7", "1969-12-31 23:59:59.7"])
    for time in times:
        table = pd.DataFrame({"x": [1.0], "ts": [time]})
        assert coverage(table, time="ts").to_pandas()["window"].tolist() == [time.floor("D")]


def test_a_time_in_another_zone_is_counted_in_utc(log: Any) -> None:
    utc = coverage(log, "clicks", time="ts").to_pandas()
    tokyo = log.assign(ts=log["ts"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    pd.testing.assert_frame_equal(coverage(tokyo, "clicks", time="ts").to_pandas(), utc)
    days = coverage(tokyo, "clicks", time="ts", zone="Asia/Tokyo")
    assert days.zone == "Asia/Tokyo"
    local = tokyo["ts"].dt.floor("D").value_counts().sort_index()
    assert days.to_pandas()["events"].tolist() == local.tolist()
    assert days.to_pandas()["window"].tolist() == local.index.tz_convert("UTC").tz_localize(None).tolist()


def test_a_pandas_file_with_a_zone_is_read(log: Any, tmp_path: Path) -> None:
    log.assign(ts=log["ts"].dt.tz_localize("Europe/Berlin")).to_parquet(tmp_path / "log.parquet")
    found = coverage(
        tmp_path / "log.parquet", "clicks", time="ts", zone="Europe/Berlin", since="2024-05-02"
    ).to_pandas()
    assert found["window"].iloc[0] == pd.Timestamp("2024-05-01 22:00")
    assert found["events"].sum() == (log["ts"] >= "2024-05-02").sum()


def test_a_time_of_text_or_numbers_is_refused_with_what_to_do(log: Any) -> None:
    with pytest.raises(BadInput, match="'ts' must hold timestamps or dates. Got text.*to_datetime"):
        coverage(log.assign(ts=log["ts"].astype(str)), "clicks", time="ts")
    with pytest.raises(BadInput, match="Got int64.*as_timestamp"):
        coverage(log.assign(ts=log["ts"].astype("int64")), "clicks", time="ts")
    dates = log.assign(ts=log["ts"].dt.date)
    assert coverage(dates, "clicks", time="ts").to_pandas()["events"].tolist() == [70, 65, 65]


def test_an_empty_table_is_unknown_and_told() -> None:
    empty = pa.table(
        {"x": pa.array([], pa.float64()), "s": pa.array([], pa.string()), "e": pa.array([], pa.int64())}
    )
    for options in (
        {},
        {"event": "e"},
        {"event": "e", "within": "rows"},
        {"rule": "mean"},
        {"rule": "positive"},
    ):
        with pytest.warns(PlacingsWarning, match="no event to count"):
            frame = coverage(empty, "x", **options).to_pandas()
        assert frame["events"].tolist() == [0]
        assert frame[["coverage", "low", "high"]].isna().all(axis=None)
    with pytest.warns(PlacingsWarning, match="no event to count"):
        assert len(coverage(empty, "x", by="s").to_pandas()) == 0


# -- the result -------------------------------------------------------------------------------------------


def test_the_result_is_told_in_percent_in_text_and_in_json(log: Any) -> None:
    found = coverage(log, ["clicks", "stock"], by="region", time="ts", event="search")
    assert found.percent["coverage"].tolist() == (100 * found.to_pandas()["coverage"]).tolist()
    text = found.table()
    assert "over 1d windows" in text
    assert "█" in text
    assert "event, covered if any row is" in text
    told = json.loads(found.to_json())
    assert told["features"] == ["clicks", "stock"]
    assert told["rows"][0]["window"] == "2024-05-01T00:00:00Z"
    assert len(told["rows"]) == len(found.to_pandas())
    assert found.to_pandas() is not found.frame
    assert "And 2 lines more." in found.table(top=2)
    with pytest.raises(UnknownName, match="no feature 'click'"):
        found["click"]


def test_a_share_that_is_not_all_is_not_printed_as_all() -> None:
    found = coverage({"x": [1] * 9999 + [0], "y": [0] * 9999 + [1]})
    lines = found.table(sort="order").splitlines()
    assert " 99.9 %" in lines[2]
    assert "100.0 %" not in lines[2].split("–")[0]
    assert "<0.1 %" in lines[3]


def test_the_table_is_not_changed(log: Any) -> None:
    before = log.copy()
    coverage(log, event="search", time="ts", by="region", rule={"clicks": "mean"})
    pd.testing.assert_frame_equal(log, before)
