"""Explanation: contributions that add up to why one item stands above another."""

from __future__ import annotations

import doctest
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.evaluation.explanation import explain
from placings.rankers.cat import CatBoostRanker
from placings.rankers.estimator import Ranker
from placings.rankers.lgbm import LightGBMRanker
from placings.rankers.linear import LinearRanker
from placings.rankers.original import OriginalOrder
from placings.rankers.xgb import XGBoostRanker
from placings.simulate.rankings import make_ranking

DATA = make_ranking(30, n_features=6, mean_size=20, missing=0.1, items=True, random_state=0).data
QID = DATA.qids[4]
RANKERS = [
    LightGBMRanker(rounds=8, n_jobs=1),
    XGBoostRanker(rounds=8, n_jobs=1),
    CatBoostRanker(rounds=8, depth=3, n_jobs=1),
    LinearRanker(loss="ridge"),
]


def best_and_worst(ranker: Ranker, data: RankingData = DATA) -> tuple[Any, Any]:
    query = data.query(QID)
    scores = ranker.predict(query)
    names = range(query.n_rows) if query.items is None else query.items.tolist()
    return names[int(scores.argmax())], names[int(scores.argmin())]


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
@pytest.mark.parametrize("sparse", [False, True])
def test_terms_add_up_to_the_difference(ranker: Ranker, sparse: bool) -> None:
    data = DATA.replace(X=csr_array(DATA.X)) if sparse else DATA
    ranker.fit(data)
    top, last = best_and_worst(ranker, data)
    found = explain(ranker, data, QID, top, last)
    assert found.difference > 0
    assert found.holds
    assert sum(term.contribution for term in found.terms) == pytest.approx(found.difference, abs=1e-5)
    sizes = [abs(term.contribution) for term in found.terms]
    assert sizes == sorted(sizes, reverse=True)
    assert {term.feature for term in found.terms} == set(DATA.feature_names)


def test_values_are_those_of_the_two_rows() -> None:
    ranker = LightGBMRanker(rounds=8, n_jobs=1).fit(DATA)
    query = DATA.query(QID)
    top, last = best_and_worst(ranker)
    rows = [query.items.tolist().index(item) for item in (top, last)]
    for term in explain(ranker, DATA, QID, top, last).terms:
        column = query.feature_names.index(term.feature)
        expected = query.X[rows, column]
        np.testing.assert_array_equal([term.value_above, term.value_below], expected)


def test_a_linear_ranker_is_explained_by_weight_times_difference() -> None:
    whole = make_ranking(10, n_features=3, mean_size=10, random_state=2).data
    ranker = LinearRanker(loss="ridge").fit(whole)
    found = explain(ranker, whole, whole.qids[0], 0, 1)
    query = whole[0]
    expected = ranker.coef_ * (query.X[0].astype(float) - query.X[1])
    assert {term.feature: term.contribution for term in found.terms} == pytest.approx(
        dict(zip(whole.feature_names, expected, strict=True))
    )


def test_an_item_that_is_in_fact_below_is_said_to_be() -> None:
    ranker = LightGBMRanker(rounds=8, n_jobs=1).fit(DATA)
    top, last = best_and_worst(ranker)
    found = explain(ranker, DATA, QID, last, top)
    assert not found.holds
    assert found.difference < 0
    assert "is NOT above" in str(found)
    assert found.rank_below == 1


def test_equal_scores_are_said_to_be() -> None:
    data = RankingData.from_arrays([[1.0], [1.0], [2.0]] * 20, [0, 0, 1] * 20, [0] * 60)
    found = explain(LightGBMRanker(rounds=3, n_jobs=1).fit(data), data, 0, 0, 1)
    assert found.difference == 0
    assert found.holds
    assert "equal scores; their order is that of their rows" in found.sentence


def test_without_item_ids_places_are_used() -> None:
    plain = DATA.replace(items=None)
    ranker = LightGBMRanker(rounds=8, n_jobs=1).fit(plain)
    top, last = best_and_worst(ranker, plain)
    assert explain(ranker, plain, QID, top, last).rank_above == 1
    with pytest.raises(BadInput, match="places in the query, from 0. Got 'shop'"):
        explain(ranker, plain, QID, "shop", 0)
    with pytest.raises(BadInput, match="have places 0 to"):
        explain(ranker, plain, QID, 0, 10_000)


def test_columns_in_another_order_are_found_by_name() -> None:
    ranker = LightGBMRanker(rounds=8, n_jobs=1).fit(DATA)
    top, last = best_and_worst(ranker)
    turned = DATA.select(DATA.feature_names[::-1])
    assert (
        explain(ranker, turned, QID, top, last).to_json() == explain(ranker, DATA, QID, top, last).to_json()
    )


def test_what_cannot_be_explained_is_refused() -> None:
    ranker = LightGBMRanker(rounds=2, n_jobs=1).fit(DATA)
    first, second = DATA.query(QID).items.tolist()[:2]
    with pytest.raises(BadInput, match="OriginalOrder does not"):
        explain(OriginalOrder(), DATA, QID, first, second)
    with pytest.raises(BadInput, match="no item 'nobody' in query"):
        explain(ranker, DATA, QID, "nobody", second)
    with pytest.raises(BadInput, match="two items. Got"):
        explain(ranker, DATA, QID, first, first)
    with pytest.raises(BadInput, match="no query 'nowhere'"):
        explain(ranker, DATA, "nowhere", first, second)
    twice = DATA.replace(items=np.full(DATA.n_rows, "same", dtype=object))
    with pytest.raises(BadInput, match="item 'same' stands .* times"):
        explain(ranker, twice, QID, "same", second)


def test_contributions_of_another_ranker_are_refused() -> None:
    ranker = LightGBMRanker(rounds=8, n_jobs=1).fit(DATA)
    other = LightGBMRanker(rounds=80, learning_rate=0.3, n_jobs=1).fit(DATA)
    ranker.contributions = other.contributions
    top, last = best_and_worst(ranker)
    with pytest.raises(BadInput, match="They explain another ranker"):
        explain(ranker, DATA, QID, top, last)


def test_it_is_shown_and_written() -> None:
    ranker = LightGBMRanker(rounds=8, n_jobs=1).fit(DATA)
    top, last = best_and_worst(ranker)
    found = explain(ranker, DATA, QID, top, last)
    text = found.table(top=2)
    assert "4 others" in text
    assert "difference" in text
    assert found.sentence in text
    facts = json.loads(found.to_json())
    assert facts["above"]["rank"] == 1
    assert len(facts["terms"]) == 6
    assert "| feature |" in found.table("markdown")
    assert "<table>" in found._repr_html_()


def test_the_examples_of_the_page_run() -> None:
    page = Path(__file__).parents[3] / "docs" / "explaining.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert found.attempted > 10
    assert found.failed == 0


def test_the_examples_in_the_docstrings_run() -> None:
    found = doctest.testmod(import_module("placings.evaluation.explanation"))
    assert found.attempted > 0
    assert found.failed == 0


def test_ids_out_of_an_array_are_shown_as_plain_numbers() -> None:
    import numpy as np

    from placings.data.ranking import RankingData
    from placings.evaluation.explanation import explain
    from placings.rankers.linear import LinearRanker

    data = RankingData.from_arrays([[2.0], [1.0]], [1, 0], [7, 7], items=[30, 31])
    found = explain(LinearRanker().fit(data), data, np.int64(7), data.items[0], data.items[1])  # type: ignore[index]
    assert "np.int64" not in str(found)
    assert "30 (rank 1 of 2) is above 31" in found.sentence
