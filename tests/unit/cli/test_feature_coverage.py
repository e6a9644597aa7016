"""`placings coverage`: what each command prints, keeps, refuses, and how it leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import placings as pg
from placings.cli.coverage_options import parse_features, parse_sample
from placings.cli.main import app
from placings.core.errors import BadFile, BadInput, PlacingsError, UnknownName
from placings.feco.limits import read_limits

DAYS, SEARCHES = 24, 120  # the last day is dark in the north
COUNTED = ("--event", "search_id", "--within", "rows", "--by", "region")
TIMED = (*COUNTED, "--time", "ts")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["coverage", *map(str, arguments)])


def fails(kind: type[PlacingsError], *arguments: object) -> str:
    """What an error of this kind says; the program prints it as one line and leaves with 1."""
    result = run(*arguments)
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


def make_log(day: int, rng: np.random.Generator) -> pd.DataFrame:
    search = np.repeat(np.arange(SEARCHES), 3) + day * SEARCHES
    rows = len(search)
    log = pd.DataFrame(
        {
            "search_id": search,
            "shown": np.tile([1, 2, 3], SEARCHES),
            "ts": pd.Timestamp("2024-02-01")
            + pd.to_timedelta(search * 86_400 // SEARCHES, unit="s").astype("timedelta64[us]"),
            "region": np.where(search % 2, "north", "south"),
            "first_seen": pd.Timestamp("2024-01-20") + pd.to_timedelta(search % 9 * 3, unit="D"),
            "rating": np.where(rng.random(rows) < 0.9, rng.random(rows), 0.0),
            "clicks": rng.poisson(1.0, rows).astype(float),
            "label": rng.integers(0, 2, rows),
        }
    )
    if day == DAYS - 1:
        log.loc[log["region"] == "north", "rating"] = np.nan
    return log


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of a file a day, and a model trained on its first week."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    days = [make_log(day, rng) for day in range(DAYS)]
    for day, log in enumerate(days, 1):
        log.to_parquet(folder / f"day-{day:02}.parquet", coerce_timestamps="us")
    week = pd.concat(days[:7])
    data = pg.RankingData.from_arrays(
        week[["rating", "clicks"]].to_numpy(np.float32),
        week["label"].to_numpy(float),
        week["search_id"].to_numpy(),
        feature_names=["rating", "clicks"],
        segments={"region": week["region"].to_numpy()},
    )
    pg.write(data, folder / "judged.parquet")
    pg.LightGBMRanker(rounds=5, random_state=0).fit(data).save(folder / "model")
    limits = (
        "init",
        folder / "day-*.parquet",
        *TIMED,
        "--features",
        "rating,clicks",
        "--until",
        "2024-02-24",
    )
    assert run(*limits, "-o", folder / "limits.yaml").exit_code == 0
    return folder


# -- show ---------------------------------------------------------------------------------------------


def test_show_prints_bars_and_sparklines(home: Path) -> None:
    result = run("show", home / "day-*.parquet", *TIMED, "--features", "rating,clicks")
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines() if re.match(r"rating +north", line))
    assert "█" in line
    assert re.search(r"[▇█]{23}▁", line)  # the last day is dark
    assert "0.0 %" in line


def test_show_speaks_json(home: Path) -> None:
    told = json.loads(
        run("show", home / "day-01.parquet", *COUNTED, "--ignore", "label,shown", "--json").stdout
    )
    assert told["features"] == ["rating", "clicks"]
    assert told["left_out"]["label"] == "ignored, as asked"
    assert {row["region"] for row in told["rows"]} == {"north", "south"}


def test_show_picks_the_top_of_a_model_and_takes_rules_and_samples(home: Path) -> None:
    top = run("show", home / "day-01.parquet", "--features", "top:1", "--reference", home / "model", "--json")
    assert len(json.loads(top.stdout)["features"]) == 1
    rule = run("show", home / "day-01.parquet", "--features", "clicks", "--rule", "1.5", "--json")
    assert json.loads(rule.stdout)["rules"] == {"clicks": 1.5}
    sample = (
        "--event",
        "search_id",
        "--time",
        "ts",
        "--sample",
        "random:30",
        "--features",
        "clicks",
        "--json",
    )
    assert json.loads(run("show", home / "day-01.parquet", *sample).stdout)["rows"][0]["events"] == 30


def test_show_writes_a_page_with_every_part_that_is_named(home: Path, tmp_path: Path) -> None:
    parts = (
        "--first-seen",
        "first_seen",
        "--reference",
        home / "model",
        "--labelled",
        home / "judged.parquet",
    )
    chosen = ("--features", "rating,clicks", "--html", tmp_path / "page.html")
    result = run("show", home / "day-*.parquet", *TIMED, *parts, *chosen)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    for part in ("incidents", "movers", "trends", "segments", "cold-start", "risk"):
        assert f'<h2 id="{part}">' in page
    assert "severe drop of rating in region=north since 2024-02-24" in page


# -- the gate -----------------------------------------------------------------------------------------


def test_init_keeps_how_it_counted_and_does_not_overwrite(home: Path, tmp_path: Path) -> None:
    limits = read_limits(home / "limits.yaml")
    assert limits.counting == {
        "event": "search_id", "within": "rows", "by": ["region"], "time": "ts", "window": "1d",
    }  # fmt: skip
    assert len(limits.entries) == 6  # two features, everywhere and in two regions
    assert "is there already" in fails(BadFile, "init", home / "day-01.parquet", "-o", home / "limits.yaml")
    again = run(
        "init", home / "day-01.parquet", "--reference", home / "model", "-o", tmp_path / "l.yaml", "--json"
    )
    assert "importance" in json.loads(again.stdout)["features"]["rating"]


def test_check_passes_a_healthy_day_and_stops_a_dark_one(home: Path) -> None:
    fine = run("check", home / "day-23.parquet", "--limits", home / "limits.yaml")
    assert (fine.exit_code, fine.stdout.splitlines()[0]) == (0, "passed: 6 ok")
    dark = run("check", home / "day-24.parquet", "--limits", home / "limits.yaml")
    assert dark.exit_code == 3
    assert dark.stdout.startswith("failed: rating (2 below, 4 ok)\n")
    assert "rating in region=north on 2024-02-24: 0.0 % (0.0 % – 6.0 %) of 60 events; limit" in dark.stdout


def test_check_judges_each_window_and_no_unfinished_one(home: Path) -> None:
    every = ("check", home / "day-*.parquet", "--limits", home / "limits.yaml", "--json")
    told = run(*every)
    assert told.exit_code == 3
    verdict = json.loads(told.stdout)
    assert len(verdict["findings"]) == 6 * DAYS
    assert {each["window"] for each in verdict["findings"] if each["state"] == "below"} == {
        "2024-02-24T00:00:00"
    }
    assert run(*every, "--watermark", "2024-02-24T23:00").exit_code == 0
    assert run(*every, "--until", "2024-02-24").exit_code == 0


def test_check_against_a_model(home: Path) -> None:
    fine = run("check", "--reference", home / "model", home / "day-23.parquet", "--event", "search_id")
    assert fine.exit_code == 0, fine.output
    dark = run("check", "--reference", home / "model", home / "day-24.parquet", "--event", "search_id")
    assert dark.exit_code == 3
    assert (
        run("check", "--reference", home / "model", home / "day-24.parquet", "--margin", "0.7").exit_code == 0
    )


def test_check_says_what_no_data_means(home: Path, tmp_path: Path) -> None:
    pd.read_parquet(home / "day-01.parquet").head(0).to_parquet(tmp_path / "empty.parquet")
    for option, code in (("fail", 3), ("warn", 0), ("ignore", 0)):
        with pytest.warns(UserWarning, match="There is no event to count"):
            result = run(
                "check", tmp_path / "empty.parquet", "--limits", home / "limits.yaml", "--no-data", option
            )
        assert result.exit_code == code, result.output
        assert ("no data" in result.stdout) is (option != "ignore") or option == "ignore"


def test_check_writes_a_page_and_every_finding(home: Path, tmp_path: Path) -> None:
    page = tmp_path / "check.html"
    result = run("check", home / "day-24.parquet", "--limits", home / "limits.yaml", "--all", "--html", page)
    assert result.exit_code == 3
    assert result.stdout.count("ok") >= 4
    assert '<h2 id="gate">' in page.read_text()


def test_a_gate_needs_one_kind_of_limits(home: Path) -> None:
    assert run("check", home / "day-01.parquet").exit_code == 2
    both = ("--limits", home / "limits.yaml", "--reference", home / "model")
    assert run("check", home / "day-01.parquet", *both).exit_code == 2


def test_fit_trains_nothing_on_dark_data(home: Path, tmp_path: Path) -> None:
    columns = ["search_id", "region", "rating", "clicks", "label"]
    for name, day in (("fine", 22), ("dark", 24)):
        frame = pd.read_parquet(home / f"day-{day}.parquet")[columns]
        frame.to_parquet(tmp_path / f"{name}.parquet")
    options = ["--qid", "search_id", "--label", "label", "--ranker", "ridge"]
    options += ["--features", "rating,clicks", "--coverage-limits", str(home / "limits.yaml")]

    def fit(name: str, *more: str) -> Result:
        out = ["--out", str(tmp_path / name)]
        return CliRunner().invoke(app, ["fit", str(tmp_path / f"{name}.parquet"), *options, *out, *more])

    fine = fit("fine")
    assert fine.exit_code == 0, fine.output
    assert (tmp_path / "fine" / "model").is_dir()
    dark = fit("dark", "--json")
    assert dark.exit_code == 3
    assert "nothing was trained" in dark.stderr
    assert json.loads(dark.stdout)["coverage"]["passed"] is False
    assert not (tmp_path / "dark").exists()


# -- trend and alerts ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(home: Path) -> Path:
    asked = (*TIMED, "--features", "rating,clicks", "--store", home / "store")
    result = run("trend", home / "day-*.parquet", *asked)
    assert result.exit_code == 0, result.output
    assert "24 days computed, 0 left as they were" in result.stdout
    assert re.search(r"rating +[▇█]{23}[▃▄]", result.stdout)  # half of the last day is dark
    again = run("trend", home / "day-*.parquet", *asked)
    assert "0 days computed, 24 left as they were" in again.stdout
    return home / "store"


def test_trend_shows_what_is_kept_and_writes_a_page(store: Path, tmp_path: Path) -> None:
    told = json.loads(run("trend", "--store", store, "--segments", "--json").stdout)
    assert told["update"] is None
    assert len(told["rows"]) == 2 * 2 * DAYS
    result = run("trend", "--store", store, "--html", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_alerts_tell_incidents_with_their_runbook_and_leave_with_3_if_asked(store: Path, home: Path) -> None:
    found = run("alerts", store)
    assert found.exit_code == 0
    assert "1. severe drop of rating in region=north since 2024-02-24: rating" in found.stdout
    assert "what to do: placings coverage runbook severe-drop" in found.stdout
    told = run("runbook", "severe-drop")
    assert told.exit_code == 0
    assert told.stdout.startswith("A severe drop\n")
    assert "An overall drop" in run("runbook").stdout
    assert run("alerts", store, "--fail").exit_code == 3
    assert run("alerts", store, "--fail", "--until", "2024-02-24").exit_code == 0
    same = run("alerts", home / "day-*.parquet", *TIMED, "--features", "rating,clicks")
    assert same.stdout == found.stdout


def test_alerts_take_importances_and_settings(store: Path, home: Path) -> None:
    told = json.loads(run("alerts", store, "--reference", home / "model", "--json").stdout)
    assert told["incidents"][0]["features"] == ["rating"]
    mild = ("--set", "severe_drop=0.99", "--set", "min_drop=0.98")
    assert "no incidents" in run("alerts", store, *mild).stdout
    assert "did you mean 'min_drop'" in fails(UnknownName, "alerts", store, "--set", "mindrop=0.1")


def test_a_store_and_a_log_must_be_what_they_are_taken_for(home: Path, tmp_path: Path) -> None:
    assert run("trend", home / "day-01.parquet", "--store", tmp_path / "s").exit_code == 2  # no --time
    assert run("alerts", home / "day-01.parquet").exit_code == 2
    assert "is not a coverage store" in fails(BadFile, "trend", "--store", tmp_path / "nowhere")


# -- a column that vanished -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gone(home: Path) -> Path:
    """The day after, written by a logger that forgot the rating."""
    log = make_log(DAYS, np.random.default_rng(1)).drop(columns="rating")
    log.to_parquet(home / "after-25.parquet", coerce_timestamps="us")
    return home / "after-25.parquet"


@pytest.mark.parametrize("reference", [("--limits", "limits.yaml"), ("--reference", "model")])
def test_a_column_that_vanished_is_exit_3_for_the_gate(
    home: Path, gone: Path, tmp_path: Path, reference: tuple[str, str]
) -> None:
    option, name = reference
    counted = COUNTED[:4] if option == "--reference" else ()
    page = tmp_path / "gate.html"
    result = run("check", gone, option, home / name, *counted, "--html", page)
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("failed: rating (1 absent, ")
    assert "rating: absent, no such column (" in result.stdout
    assert "absent, no such column" in page.read_text()
    told = json.loads(run("check", gone, option, home / name, *counted, "--json").stdout)
    (absent,) = (each for each in told["findings"] if each["state"] == "absent")
    assert (absent["feature"], absent["coverage"]) == ("rating", 0.0)
    wrong = tmp_path / "wrong.parquet"
    pd.DataFrame({"a": [1.0], "b": [2.0]}).to_parquet(wrong)
    assert run("check", wrong, option, home / name).exit_code == 1  # no column in common


def test_training_data_without_a_feature_are_exit_3_and_nothing_is_trained(
    home: Path, tmp_path: Path
) -> None:
    whole = pg.read(home / "judged.parquet")
    pg.write(whole.replace(X=np.asarray(whole.X)[:, 1:], feature_names=["clicks"]), tmp_path / "part.parquet")
    for limits in ("limits.yaml", "model"):
        asked = ["fit", str(tmp_path / "part.parquet"), "--coverage-limits", str(home / limits)]
        result = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "run")])
        assert result.exit_code == 3, result.output
        assert "rating: absent" in result.stderr
        assert not (tmp_path / "run" / "model").exists()


def test_a_model_may_guard_the_training_of_the_next(home: Path, tmp_path: Path) -> None:
    asked = ["fit", str(home / "judged.parquet"), "--ranker", "ridge", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*asked, "--coverage-limits", str(home / "model")])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("first", [True, False])
def test_files_of_which_some_lack_a_column_are_read_together(home: Path, gone: Path, first: bool) -> None:
    """120 searches a day; of two days, one has the rating: half of the events, whichever file comes first."""
    files = [home / "day-01.parquet", gone]
    asked = ("--event", "search_id", "--features", "rating,clicks", "--json")
    told = json.loads(run("show", *(files if first else files[::-1]), *asked).stdout)
    (rating,) = (row for row in told["rows"] if row["feature"] == "rating")
    assert (rating["events"], rating["covered"]) == (2 * SEARCHES, SEARCHES)


def test_a_nightly_trend_goes_on_when_a_column_vanishes_and_a_first_one_refuses_a_typo(
    home: Path, gone: Path, tmp_path: Path
) -> None:
    asked = ("--store", tmp_path / "store", *TIMED, "--features", "rating,clicks")
    assert run("trend", home / "day-01.parquet", *asked).exit_code == 0
    told = json.loads(run("trend", gone, *asked, "--json").stdout)
    assert {row["coverage"] for row in told["rows"][-3:] if row["feature"] == "rating"} <= {0.0}
    assert any("covered nowhere: 'rating'" in note for note in told["update"]["notes"])
    fresh = ("--store", tmp_path / "fresh", *TIMED, "--features", "ratin,clicks")
    assert "did you mean 'rating'" in fails(UnknownName, "trend", home / "day-01.parquet", *fresh)


def test_what_a_vanished_column_costs_can_be_asked(home: Path, gone: Path) -> None:
    cost = run(
        "risk", home / "model", home / "judged.parquet", "--today", gone, "--event", "search_id", "--json"
    )
    assert cost.exit_code == 0, cost.output
    (rating,) = (row for row in json.loads(cost.stdout)["features"] if row["feature"] == "rating")
    assert rating["coverage_after"] == 0.0


# -- plan, degrade, risk --------------------------------------------------------------------------------


def test_plan_shows_errors_of_plans(home: Path) -> None:
    asked = ("--time", "ts", "--event", "search_id", "--ignore", "shown,label")
    sizes = ("--windows", "4,8", "--minutes", "60", "--per-window", "2,5", "--draws", "2")
    result = run("plan", home / "day-*.parquet", *asked, *sizes)
    assert result.exit_code == 0, result.output
    assert "8 × 60 min × 5" in result.stdout
    told = json.loads(run("plan", home / "day-*.parquet", *asked, "--how", "random", "--json").stdout)
    assert told["events"] == SEARCHES
    assert run("plan", home / "day-01.parquet", *asked, "--windows", "many").exit_code == 2


def test_degrade_prints_the_papers_table(home: Path, tmp_path: Path) -> None:
    asked = ("--features", "top:1", "--drops", "0.5", "--draws", "2", "--metrics", "ndcg@4")
    result = run(
        "degrade", home / "model", home / "judged.parquet", *asked, "--figure", tmp_path / "drop.svg"
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"\(top 1\) +50% in test data", result.stdout)
    assert (tmp_path / "drop.svg").read_text().startswith("<svg")
    assert run("degrade", home / "model", home / "judged.parquet", "--where", "both").exit_code == 2
    assert run("degrade", home / "model", home / "judged.parquet", "--drops", "half").exit_code == 2
    told = json.loads(
        run("degrade", home / "model", home / "judged.parquet", *asked, "--value", "nan", "--json").stdout
    )
    assert told["losses"][0]["drop"] == 0.5


def test_risk_says_what_the_dark_day_costs(home: Path, store: Path) -> None:
    today = ("--today", home / "day-*.parquet", *TIMED, "--draws", "3", "--json")
    told = json.loads(run("risk", home / "model", home / "judged.parquet", *today).stdout)
    masked = {(row["feature"], row["region"]): row["masked"] for row in told["segments"]}
    assert masked["rating", "north"] == 1.0
    assert masked["rating", "south"] == 0.0
    kept = run("risk", home / "model", home / "judged.parquet", "--today", store, "--draws", "3", "--json")
    assert json.loads(kept.stdout)["total"] == told["total"]
    text = run("risk", home / "model", home / "judged.parquet", "--today", home / "day-24.parquet", *COUNTED)
    assert "all jointly" in text.stdout
    assert "Assumed: what goes dark does so at random within each segment (region)" in text.stdout


# -- bad input ------------------------------------------------------------------------------------------


def test_a_missing_column_is_named_with_the_nearest(home: Path) -> None:
    assert "did you mean 'ts'" in fails(UnknownName, "show", home / "day-01.parquet", "--time", "tss")
    assert "did you mean 'region'" in fails(UnknownName, "show", home / "day-01.parquet", "--by", "regoin")
    lacking = fails(UnknownName, "check", home / "judged.parquet", "--limits", home / "limits.yaml")
    assert "no column for event" in lacking


def test_an_all_null_column_is_dark_not_absent(tmp_path: Path) -> None:
    pd.DataFrame({"x": [None] * 60, "y": 1.0}).to_parquet(tmp_path / "a.parquet")
    result = run("show", tmp_path / "a.parquet")
    assert re.search(r"^x +0\.0 %", result.stdout, re.M)
    assert "Without a single value (NULL or NaN everywhere): 'x'." in result.stdout


def test_strings_in_a_numeric_column_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\nunknown,3\n")
    assert "Got text, such as 'unknown'" in fails(BadInput, "show", tmp_path / "a.csv", "--features", "x")


def test_times_of_another_zone_fall_on_their_own_day(tmp_path: Path) -> None:
    times = pd.to_datetime(["2024-05-01T00:30+02:00"] * 60).astype("datetime64[us, UTC+02:00]")
    pd.DataFrame({"ts": times, "x": 1.0}).to_parquet(tmp_path / "a.parquet")
    told = json.loads(run("show", tmp_path / "a.parquet", "--time", "ts", "--json").stdout)
    assert [row["window"] for row in told["rows"]] == ["2024-04-30T00:00:00Z"]
    zone = run("show", tmp_path / "a.parquet", "--time", "ts", "--zone", "Europe/Berlin", "--json")
    assert [row["window"] for row in json.loads(zone.stdout)["rows"]] == ["2024-04-30T22:00:00Z"]


def test_duplicate_events_count_once_and_are_told(home: Path, tmp_path: Path) -> None:
    day = pd.read_parquet(home / "day-01.parquet")
    pd.concat([day, day]).to_parquet(tmp_path / "twice.parquet", coerce_timestamps="us")
    asked = ("--event", "search_id", "--position", "shown", "--features", "clicks", "--json")
    with pytest.warns(UserWarning, match="rows share event and position"):
        told = json.loads(run("show", tmp_path / "twice.parquet", *asked).stdout)
    assert told["rows"][0]["events"] == SEARCHES


def test_an_empty_day_is_no_data_not_dark(home: Path) -> None:
    days = [home / f"day-{day:02}.parquet" for day in (1, 2, 4)]
    result = run("show", *days, "--time", "ts", "--features", "clicks")
    assert "·" in result.stdout
    assert "Windows without an event (start in UTC): 2024-02-03" in result.stdout
    checked = run("check", *days, "--limits", home / "limits.yaml", "--no-data", "warn", "--json")
    states = {each["state"] for each in json.loads(checked.stdout)["findings"] if "02-03" in each["window"]}
    assert states == {"no data"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "dukdb"), "did you mean 'duckdb'"),
        (("--within", "some"), "within must be 'any', 'all', 'rows'"),
        (("--rule", "nonzero"), "did you mean 'non_zero'"),
        (("--features", "top:3"), "Pass bundle="),
        (("--sample", "lots"), "--sample must be WINDOWSxMINUTESxEVENTS"),
        (("--time", "ts", "--window", "5h"), "window must divide a day"),
        (("--time", "ts", "--since", "yesterday"), "since must be a date"),
    ],
)
def test_options_that_cannot_be_meant_are_told(home: Path, arguments: tuple[Any, ...], message: str) -> None:
    assert message in fails(BadInput, "show", home / "day-01.parquet", *arguments)


def test_options_of_time_need_a_time(home: Path) -> None:
    result = run("show", home / "day-01.parquet", "--window", "1h")
    assert result.exit_code == 2
    assert "--window needs --time" in result.output.replace("\n", " ")


def test_every_command_has_help_with_examples() -> None:
    for name in ("show", "plan", "init", "check", "trend", "alerts", "degrade", "risk"):
        result = run(name, "--help")
        assert result.exit_code == 0
        assert f"placings coverage {name} " in result.stdout.replace("Usage:", "")


def test_what_is_written_at_the_terminal_is_read() -> None:
    assert parse_features("a, b") == ["a", "b"]
    assert parse_sample("stratified:500:region", 3).strata == ("region",)
    assert parse_sample("24x5x100", 3).seed == 3


def test_the_papers_experiment_is_one_command(tmp_path: Path) -> None:
    small = ["--parts", "generated", "--queries", "20", "--draws", "1", "--retrained", "1", "--compared", "3"]
    asked = [
        "reproduce",
        "coverage-drop",
        *small,
        "--rankers",
        "ridge",
        "--drops",
        "0.5",
        "--out",
        str(tmp_path),
    ]
    result = CliRunner().invoke(app, asked, env={"COLUMNS": ""})
    assert result.exit_code == 0, result.output
    assert "| full data | in test data |" in result.stdout
    assert "(top 1) | 50% in train and test data |" in result.stdout
    assert {"coverage_drop.md", "coverage_drop.json", "cells"} <= {path.name for path in tmp_path.iterdir()}
