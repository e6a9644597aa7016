"""A shop's files at the terminal: under their own names, split, compared with the engine, explained."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from terminal import call_placings

import placings as pg
from placings.simulate import make_shop_actions, make_shop_log

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop's log as JSONL under other names with a cut last line, its rows, features and a ranker."""
    home = tmp_path_factory.mktemp("shop")
    made = make_shop_actions(make_shop_log(14, searches=30, random_state=0))
    made.write(home, "jsonl")
    lines = []
    for line in (home / "searches.jsonl").read_text().splitlines():
        told = json.loads(line)
        told["ts"] = int(pd.Timestamp(told.pop("time")).timestamp() * 1000)
        told["sid"] = told.pop("search_id")
        lines.append(json.dumps(told))
    (home / "theirs.jsonl").write_text("\n".join(lines) + '\n{"sid": "q9", "ts": 17')
    names = ["--map", "searches.search_id=sid", "--map", "searches.time=ts"]
    done = call_placings(
        "log", "join", "theirs.jsonl", "actions.jsonl", *names, "--out", "rows.parquet", cwd=home
    )
    assert done.returncode == 0, done.stderr
    assert "times of the searches: milliseconds since 1970" in done.stdout
    assert "the last line of its file ends early" in done.stdout
    assert "the counts add up" in done.stdout
    for words in (
        ("log", "split", "rows.parquet", "past.parquet", "future.parquet", "--share", "0.3"),
        ("log", "features", "past.parquet", "--preset", "shop", "--out", "train.parquet", "--save", "f.json"),
        ("log", "features", "future.parquet", "--preset", "f.json", "--out", "test.parquet"),
        ("fit", "train.parquet", "--ranker", "ridge", "--out", "run"),
    ):
        done = call_placings(*words, cwd=home)
        assert done.returncode == 0, done.stderr
    return home


def test_a_split_keeps_every_search_once_and_the_last_ones_apart(shop: Path) -> None:
    whole, past, future = (pd.read_parquet(shop / f"{name}.parquet") for name in ("rows", "past", "future"))
    assert len(past) + len(future) == len(whole)
    assert not set(past["search_id"]) & set(future["search_id"])
    assert past["time"].median() < future["time"].min()
    done = call_placings("log", "split", "rows.parquet", "rows.parquet", "b.parquet", cwd=shop)
    assert (done.returncode, "must be three files" in done.stderr) == (1, True)


def test_a_cut_line_is_refused_strictly_and_a_wrong_name_has_a_neighbour(shop: Path) -> None:
    words = (
        "log",
        "join",
        "theirs.jsonl",
        "actions.jsonl",
        "--out",
        "x.parquet",
        "--map",
        "searches.time=ts",
    )
    done = call_placings(*words, "--map", "searches.search_id=sidd", cwd=shop)
    assert (done.returncode, "did you mean 'sid'?" in done.stderr) == (1, True)
    done = call_placings(*words, "--map", "serch_id=sid", cwd=shop)
    assert "no column of a log 'serch_id'; did you mean 'search_id'?" in done.stderr
    done = call_placings(*words, "--map", "searches.search_id=sid", "--strict", cwd=shop)
    assert "is cut: the last line ends" in done.stderr
    assert "leave out --strict" in done.stderr
    done = call_placings("log", "join", "theirs.jsonl", "actions.jsonl", "--out", "x.parquet", cwd=shop)
    assert "say so: --map search_id=…" in done.stderr


def test_an_import_tells_its_form_from_the_first_line(tmp_path: Path) -> None:
    event = {"event": "ranking", "id": "r", "timestamp": "1599391467000", "items": [{"id": "a"}]}
    (tmp_path / "events.jsonl").write_text(json.dumps(event) + "\n")
    done = call_placings("log", "import", "events.jsonl", "--out", "log", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["ranking events"] == 1
    (tmp_path / "shown.csv").write_text("search_id,item_id,clicked\ns,a,1\ns,b,0\n")
    done = call_placings("log", "import", "shown.csv", "--out", "rows.parquet", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["used"] == 2
    assert pd.read_parquet(tmp_path / "rows.parquet")["label"].tolist() == [1.0, 0.0]
    done = call_placings(
        "log", "import", "events.jsonl", "--out", "log", "--time-unit", "seconds", cwd=tmp_path
    )
    assert "--time-unit has no meaning for metarank" in done.stderr


def test_the_engine_stands_in_the_table_by_itself(shop: Path) -> None:
    words = ("compare", "test.parquet", "--model", "ours=run/model", "--metrics", "mrr", "--json")
    told = json.loads(call_placings(*words, cwd=shop).stdout)
    assert list(told["methods"]) == ["engine", "ours"]
    assert told["settings"]["baselines"] == ["engine"]
    data = pg.read(shop / "test.parquet")
    assert data.position is not None
    assert told["methods"]["engine"]["mrr"]["mean"] == pytest.approx(
        pg.evaluate(-data.position, data, "mrr")["mrr"]
    )
    told = json.loads(call_placings(*words, "--no-engine", cwd=shop).stdout)
    assert list(told["methods"]) == ["ours"]
    told = json.loads(call_placings(*words, "--baseline", "engine", cwd=shop).stdout)
    assert list(told["methods"]) == ["engine", "ours"]


def test_the_engine_stands_beside_rankers_that_are_trained_and_fitted(shop: Path) -> None:
    words = ("compare", "test.parquet", "--rankers", "ridge", "--folds", "3", "--metrics", "mrr", "--json")
    assert list(json.loads(call_placings(*words, cwd=shop).stdout)["methods"]) == ["engine", "ridge"]
    words = ("fit", "train.parquet", "--ranker", "ridge", "--test", "test.parquet", "--metrics", "mrr")
    done = call_placings(*words, "--out", "beside", cwd=shop)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[3:5]] == ["engine", "ridge"]
    kept = json.loads((shop / "beside/run.json").read_text())["metrics"]
    assert set(kept) == {"test mrr", "test engine mrr"}
    done = call_placings(*words, "--no-engine", "--out", "alone", cwd=shop)
    assert "engine" not in done.stdout


def test_an_engine_that_the_data_do_not_know_is_no_baseline(shop: Path) -> None:
    data = pg.read(shop / "test.parquet")
    pg.write(data.replace(position=None), shop / "bare.parquet")
    done = call_placings(
        "compare", "bare.parquet", "--model", "ours=run/model", "--baseline", "engine", cwd=shop
    )
    assert (done.returncode, "--baseline engine needs the engine's order" in done.stderr) == (1, True)


def test_head_torso_and_tail_are_slices(shop: Path) -> None:
    words = ("--model", "run/model", "--metrics", "mrr", "--by", "frequency", "--json")
    told = json.loads(call_placings("evaluate", "test.parquet", *words, cwd=shop).stdout)
    names = [each["value"].split()[0] for each in told["slices"]]
    assert {"head", "tail"} <= set(names) <= {"head", "torso", "tail"}
    assert sum(each["queries"] for each in told["slices"]) == told["counts"]["queries"]


def test_why_one_item_stands_above_another(shop: Path) -> None:
    data = pg.read(shop / "test.parquet")
    asked = ("explain", "run", "test.parquet", "--query", str(data.qids[0]))
    done = call_placings(*asked, "--top", "2", cwd=shop)
    assert done.returncode == 0, done.stderr
    assert "(rank 1 of " in done.stdout
    told = json.loads(call_placings(*asked, "--json", cwd=shop).stdout)
    first, second = told["above"]["item"], told["below"]["item"]
    found = pg.explain(pg.load(shop / "run/model"), data, data.qids[0], first, second)
    assert told == json.loads(found.to_json())
    done = call_placings(*asked, "--above", second, "--below", first, cwd=shop)
    assert f"{second!r} (rank 2 of " in done.stdout
    assert "is NOT above" in done.stdout
    done = call_placings(*asked[:-1], "nobody", cwd=shop)
    assert (done.returncode, "'nobody'" in done.stderr) == (1, True)
    done = call_placings(*asked, "--above", "nothing", cwd=shop)
    assert "item for --above 'nothing'" in done.stderr


def test_a_log_is_a_file_of_hits_and_a_search_is_written_as_the_service_takes_it(shop: Path) -> None:
    done = call_placings(
        "rerank", "fit", "past.parquet", "--out", "kept", "--ranker", "ridge", "--no-guard", cwd=shop
    )
    assert done.returncode == 0, done.stderr
    search = json.loads((shop / "searches.jsonl").read_text().splitlines()[-1])
    words = (
        "rerank",
        "search",
        "kept",
        search["query"],
        "--hits",
        "searches.jsonl",
        "--request",
        "request.json",
    )
    done = call_placings(*words, "--context", "platform=app", cwd=shop)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.splitlines()[0].split()[-1] == "item"
    )  # no column of types or scores that are not there
    request = pg.Request.from_dict(json.loads((shop / "request.json").read_text()))
    assert [item["item_id"] for item in request.items] == [each["item_id"] for each in search["results"]]
    assert request.context["platform"] == "app"
    done = call_placings(
        "rerank", "evaluate", "kept", "future.parquet", "--by", "region,frequency", "--json", cwd=shop
    )
    told = json.loads(done.stdout)
    assert {each["by"] for each in told["slices"]} == {"region", "frequency"}
