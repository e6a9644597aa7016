"""`placings rerank fit`, `evaluate` and `search`: a shop and places alike, from a log to a new order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from towns import TownEngine, make_towns
from typer.testing import CliRunner

import placings as pg
from placings.cli.main import app
from placings.core.errors import BadFile, BadInput, UnknownName
from placings.places import build_index
from placings.rerank import list_requests
from placings.simulate import make_shop_actions, make_shop_log, simulate_log

pytest.importorskip("pandas")


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop's log, cut by time, and a re-ranker that learned from the first part."""
    home = tmp_path_factory.mktemp("shop")
    made = make_shop_actions(make_shop_log(14, searches=40, random_state=0))
    train, test = pg.join_logs(made.searches, made.actions).split(0.7, 0.3, by="time")
    train.write(home / "train.parquet")
    test.write(home / "test.parquet")
    told = run("rerank", "fit", home / "train.parquet", "--out", home / "kept", "--ranker", "ridge")
    assert "lists, " in told
    assert "LinearRanker 0." in told
    assert "model's share" in told  # the guard's table
    return home


def test_a_shops_log_is_learned_from_and_judged(shop: Path) -> None:
    facts = json.loads(run("rerank", "evaluate", shop / "kept", shop / "test.parquet", "--json"))
    direct = pg.load(shop / "kept").evaluate(pg.ClickLog.read(shop / "test.parquet"))
    assert facts["methods"]["re-ranker"]["mrr"]["mean"] == pytest.approx(direct["re-ranker"]["mrr"], abs=1e-9)
    live = json.loads(run("rerank", "evaluate", shop / "kept", shop / "test.parquet", "--json", "--live"))
    assert live["methods"] == facts["methods"]


def test_slices_and_a_page_are_made(shop: Path, tmp_path: Path) -> None:
    page = tmp_path / "result.html"
    words = ("--by", "platform", "--page", page, "--metrics", "mrr")
    assert "platform" in run("rerank", "evaluate", shop / "kept", shop / "test.parquet", *words)
    assert "re-ranker" in page.read_text()


def test_hits_of_a_file_come_in_the_order_of_the_live_request(shop: Path, tmp_path: Path) -> None:
    request = list_requests(pg.ClickLog.read(shop / "test.parquet").rows)[0]
    hits = [{**item, "rank": place} for place, item in enumerate(request.to_dict()["items"], 1)]
    for hit in hits:
        del hit["position"]
    line = {"query": request.context["query"], "hits": hits}
    (tmp_path / "hits.jsonl").write_text(json.dumps(line) + "\n")
    known = [
        f"--context={name}={request.context[name]}"
        for name in ("platform", "region")
        if name in request.context
    ]
    words = (
        "--hits",
        tmp_path / "hits.jsonl",
        *known,
        "--time",
        request.context["time"].isoformat(),
        "--json",
    )
    told = json.loads(run("rerank", "search", shop / "kept", request.context["query"], *words))
    expected = pg.load(shop / "kept").rerank(request)
    assert [hit["id"] for hit in told["hits"]] == [request.items[row]["item_id"] for row in expected.order][
        :10
    ]
    assert told["digest"] == expected.digest is not None
    assert told["missing"] == {"score": len(request.items)}  # the shop tells no score: null is none


def test_what_a_request_lacks_is_said(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "hits.jsonl").write_text(
        '{"query": "Lamp", "hits": [{"id": "a", "title": "A lamp"}, {"id": "b"}]}\n'
    )
    words = ["rerank", "search", str(shop / "kept"), "lamp", "--hits", str(tmp_path / "hits.jsonl")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == [
        "A",
        "b",
    ] or "A lamp" in result.stdout
    assert "is missing for all 2 items" in result.stderr
    assert (
        run("rerank", "search", shop / "kept", "chair", "--hits", tmp_path / "hits.jsonl")
        == "nothing found\n"
    )


def test_places_are_searched_in_the_learned_order(tmp_path: Path) -> None:
    places = make_towns()
    build_index(places, tmp_path / "towns.db")
    rows: Any = simulate_log(places, TownEngine(places), 250, k=12, random_state=0).to_rows(
        unsuccessful="negatives"
    )
    rows.to_parquet(tmp_path / "rows.parquet")
    kept = tmp_path / "kept"
    told = json.loads(
        run("rerank", "fit", tmp_path / "rows.parquet", "--out", kept, "--ranker", "ridge", "--json")
    )
    assert told["past_clicks"] > 0  # the features of places: chosen by the columns
    assert pg.load(kept, digest=told["digest"]).clicks_
    words = ("--engine", f"sqlite:{tmp_path / 'towns.db'}", "--near", "49.0,8.4", "-k", 5)
    shown = run("rerank", "search", kept, "kaiser", *words).splitlines()
    engine = pg.load(kept).wrap(pg.open_engine(f"sqlite:{tmp_path / 'towns.db'}"))
    found = engine.search("kaiser", focus=(49.0, 8.4), k=5)
    assert len(shown) == len(found) + 1 == 6
    assert [line.split()[0] for line in shown[1:]] == [str(hit.rank) for hit in found]


def test_a_file_of_hits_that_is_wrong_is_told_by_line(shop: Path, tmp_path: Path) -> None:
    for text, said in (
        ('{"query": "a"}', 'must be an object with "query", a text, and "hits", a list'),
        ('{"query": "a", "hits": [{"price": 3}]}', "hit 1 has no item_id. It has: price"),
        ('{"query": "a", "hits": [{"id": 1, "score": "high"}]}', "hit 1 must have a whole rank and a number"),
        ('{"query": ', "is not JSON"),
    ):
        (tmp_path / "hits.jsonl").write_text('{"query": "b", "hits": []}\n' + text + "\n")
        with pytest.raises(BadFile, match="hits.jsonl:2: ") as caught:
            run("rerank", "search", shop / "kept", "a", "--hits", tmp_path / "hits.jsonl")
        assert said in str(caught.value)


def test_one_engine_is_named(shop: Path) -> None:
    for words in ([], ["--engine", "sqlite:a.db", "--hits", "h.jsonl"]):
        result = CliRunner().invoke(app, ["rerank", "search", str(shop / "kept"), "a", *words])
        assert result.exit_code == 2
    with pytest.raises(UnknownName, match="no kind of engine 'sqlight'"):
        run("rerank", "search", shop / "kept", "a", "--engine", "sqlight:a.db")


def test_a_re_ranker_that_is_none_and_settings_that_are_none_are_refused(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="re-ranker is not fitted"):
        pg.Reranker().rerank({"items": []})
    with pytest.raises(UnknownName, match="no set of features 'shoes'"):
        pg.Reranker(features="shoes").fit(pg.ClickLog.read(shop / "train.parquet"))
    with pytest.raises(BadInput, match="pool must be a whole number, 2 or more"):
        pg.Reranker(pool=1).fit(pg.ClickLog.read(shop / "train.parquet"))
