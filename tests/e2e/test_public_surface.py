"""The lines that the design promises, run as they stand there on files written here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import placings as pg


def test_the_lines_of_the_design_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("MSLR-WEB30K/Fold1")
    folder.mkdir(parents=True)
    made = pg.make_ranking(60, mean_size=12, random_state=0).data
    for name in ("train.txt", "vali.txt", "test.txt"):
        pg.write(made, folder / name)

    data = pg.read("MSLR-WEB30K/Fold1/train.txt")
    train, valid, test = data.split(0.64, 0.16, 0.20, random_state=0)
    ranker = pg.NeuralRanker(transform="mixture", steps=60, hidden=[16], random_state=0).fit(
        train, valid=valid
    )
    result = pg.evaluate(ranker, test, ["ndcg@1", "ndcg@5", "mrr"])
    assert 0.0 < result["ndcg@5"] <= 1.0
    low, high = result.interval("ndcg@5")
    assert low <= result["ndcg@5"] <= high
    assert len(result.per_query["mrr"]) == len(test)
    assert "ndcg@5" in result.table()
    trees = pg.LightGBMRanker(rounds=20, random_state=0).fit(train, valid=valid)
    compared = pg.compare({"LightGBM": trees, "Mixture": ranker}, test, baseline="LightGBM")
    assert compared["Mixture"]["ndcg@5"] == pytest.approx(result["ndcg@5"])
    ranker.save("model/")
    np.testing.assert_array_equal(pg.load("model/").predict(test), ranker.predict(test))
    assert data.feature_names[105] == "BM25 body"


def test_the_lines_from_two_logs_to_an_engine_with_a_re_ranker_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from towns import TownEngine, make_towns

    from placings.places import build_index
    from placings.simulate import make_shop_actions, make_shop_log, simulate_log

    monkeypatch.chdir(tmp_path)
    make_shop_actions(make_shop_log(10, searches=30, random_state=0)).write(".")
    log = pg.join_logs("searches.parquet", "actions.parquet")
    assert "searches" in str(log.report)
    train, valid, test = log.split(0.6, 0.2, 0.2, by="time")
    reranker = pg.Reranker(features="shop", ranker="ridge").fit(train, valid=valid)
    assert reranker.evaluate(test).difference("re-ranker", "mrr").difference == pytest.approx(
        reranker.evaluate(test, live=True).difference("re-ranker", "mrr").difference
    )

    places = make_towns()
    build_index(places, "places.db")
    simulate_log(places, TownEngine(places), 200, k=12, random_state=0).write("places")
    log = pg.join_logs("places/searches.parquet", "places/actions.parquet", unsuccessful="negatives")
    pg.Reranker(ranker="ridge").fit(log).save("reranker/")
    found = pg.load("reranker/").wrap(pg.open_engine("sqlite:places.db")).search("haupt", focus=(49.01, 8.40))
    assert {hit.rank for hit in found} == set(range(1, len(found) + 1))
