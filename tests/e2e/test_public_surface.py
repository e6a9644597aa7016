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
