"""A re-ranker that knows how people look: weights by where an item was seen, plain clicks where they win."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from towns import TownEngine, make_towns

from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.logs.propensities import PropensityCurve
from placings.rankers.click_weights import weigh_clicks
from placings.rankers.linear import LinearRanker
from placings.rerank import debiased_fit
from placings.rerank.debiased_fit import (
    draw_to_plain,
    find_looks,
    learn_debiased,
    let_fall,
    steady_curve,
    weigh_carried,
)
from placings.rerank.reranker import Reranker, gather_lists, load_reranker
from placings.simulate.places_log import simulate_log

pd = pytest.importorskip("pandas")


def make_curve(values: list[float]) -> PropensityCurve:
    return PropensityCurve.from_state(
        {
            "ranks": list(range(1, len(values) + 1)), "values": values, "low": values, "high": values,
            "method": "swaps", "rests_on": "randomisation", "says": "", "searches": 9, "clicks": 5,
        }
    )  # fmt: skip


HALVES = make_curve([1.0, 0.5, 0.25])


class Recorder(LinearRanker):
    """Remembers what it was given to learn from."""

    seen: ClassVar[list[RankingData]] = []

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        Recorder.seen.append(train)
        super()._fit(train, valid)


@pytest.fixture(scope="module")
def rows() -> Any:
    places = make_towns()
    return simulate_log(places, TownEngine(places), 300, k=12, random_state=0).to_rows(
        unsuccessful="negatives"
    )


# -- the propensity of a label -----------------------------------------------------------------------


def test_without_carried_labels_a_label_is_as_likely_as_a_look() -> None:
    looks = np.array([1.0, 0.5])
    found = weigh_carried(looks, np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([False, False]))
    assert found.tolist() == [1.0, 0.5]


def test_labels_that_were_carried_to_a_position_make_labels_there_more_likely() -> None:
    # position 1: 60 clicks, 0 carried; position 2: 20 clicks, 10 carried: 0.5 · (20 + 10)/20 = 0.75
    position = np.array([1.0] * 60 + [2.0] * 30)
    carried = np.array([False] * 80 + [True] * 10)
    found = weigh_carried(1.0 / position, position, np.ones(90), carried)
    np.testing.assert_allclose(found[[0, 60, 89]], [1.0, 0.75, 0.75])


def test_a_group_of_positions_with_few_clicks_is_counted_with_the_one_above() -> None:
    # positions 2 and 3 together: 20 + 5 clicks and 5 carried, (25 + 5)/25 = 1.2
    position = np.array([1.0] * 40 + [2.0] * 20 + [3.0] * 10)
    carried = np.array([False] * 65 + [True] * 5)
    found = weigh_carried(np.ones(70), position, np.ones(70), carried)
    np.testing.assert_allclose(found[[0, 40, 69]], [1 / 1.2, 1.0, 1.0])


def test_only_carried_labels_still_give_propensities() -> None:
    found = weigh_carried(np.array([1.0, 0.5]), np.array([1.0, 2.0]), np.ones(2), np.array([True, True]))
    assert ((found > 0.0) & (found <= 1.0)).all()


def test_a_curve_is_asked_where_people_saw_the_item() -> None:
    table = pd.DataFrame({"position": [1, 2], "shown_position": [2, 1]})
    assert find_looks(table, HALVES).tolist() == [0.5, 1.0]
    assert find_looks(table.drop(columns="shown_position"), HALVES).tolist() == [1.0, 0.5]
    assert find_looks(table.assign(propensity=[0.3, 0.2]), "log").tolist() == [0.3, 0.2]


def test_what_a_short_log_does_not_know_of_a_rank_is_learned_from_as_plain_clicks_are() -> None:
    factor = np.exp(1.959964 * np.array([0.0, 0.1, 1.0, 3.0]))  # standard errors of the logarithms
    values = np.array([1.0, 0.5, 0.1, 0.01])
    curve = replace(make_curve(values.tolist()), low=values / factor, high=values * factor)
    expected = [1.0, 0.5 ** (1 / 1.01), 0.1 ** (1 / 2), 0.01 ** (1 / 10)]  # p^(1/(1 + s²))
    # the last would rise from 0.316 to 0.631: flattened on the scale of logarithms, by 1/s²
    share = np.array([1.0, 1 / 9]) / (1 + 1 / 9)
    flat = np.exp(share @ np.log(expected[2:]))
    np.testing.assert_allclose(steady_curve(curve).values, [*expected[:2], flat, flat], rtol=1e-5)
    table = pd.DataFrame({"position": [1, 2, 3, 4]})
    np.testing.assert_allclose(find_looks(table, curve), steady_curve(curve).values)
    assert curve.values.tolist() == values.tolist()  # the curve itself stays


def test_a_curve_that_a_long_log_knows_is_learned_with_as_it_is() -> None:
    values = np.array([1.0, 0.5, 0.25])
    curve = replace(make_curve(values.tolist()), low=values * 0.98, high=np.minimum(values / 0.98, 1.0))
    np.testing.assert_allclose(steady_curve(curve).values, let_fall(curve).values, rtol=1e-3)


@pytest.mark.parametrize(
    ("table", "source", "words"),
    [
        ({"position": [1.0]}, "log", "needs a column propensity"),
        ({"position": [1.0, 2.0], "propensity": [1.0, 0.0]}, "log", "above 0 and at most 1. Got 0 in row 1"),
        ({"position": [1.0], "propensity": [np.nan]}, "log", "above 0 and at most 1. Got nan"),
        ({"position": [1.0, np.nan]}, HALVES, "1 of 2 rows without position"),
    ],
)
def test_rows_without_a_usable_propensity_are_refused(table: Any, source: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        find_looks(pd.DataFrame(table), source)


@pytest.mark.parametrize("wrong", ["column", 0.5, {"values": [1.0]}])
def test_what_is_no_source_of_propensities_is_refused_before_anything_is_read(wrong: Any) -> None:
    with pytest.raises(BadInput, match="propensity must be None, a curve"):
        Reranker(ranker="ridge", propensity=wrong).fit(pd.DataFrame())


# -- two models, one of which is taken ---------------------------------------------------------------


def make_lists(count: int, seed: int, p: float = 0.1) -> RankingData:
    """Two items, the engine's first one above; three of five want the second, one in ten looks there."""
    rng = np.random.default_rng(seed)
    wants_second = rng.random(count) < 0.6
    clicked = np.where(wants_second, rng.random(count) < p, True)
    kept = np.flatnonzero(clicked)
    labels = np.column_stack([~wants_second[kept], wants_second[kept]]).ravel().astype(float)
    return RankingData.from_arrays(
        np.tile([[1.0], [0.0]], (len(kept), 1)), labels, np.repeat(np.arange(len(kept)), 2),
        propensity=np.tile([1.0, p], len(kept)),
    )  # fmt: skip


def make_linear(weighed: bool) -> LinearRanker:
    return LinearRanker("logistic", C=10.0)


def test_weighed_clicks_find_the_item_that_most_people_want_and_plain_ones_do_not() -> None:
    train, valid = make_lists(2000, 0), make_lists(4000, 1)
    # plain clicks: 0.4 for the first, 0.6 · 0.1 = 0.06 for the second; over propensities: 0.4 and 0.6
    found = learn_debiased(make_linear, train, valid)
    assert found.facts["chosen"] == "weighted"
    assert found.facts["difference"] > 2 * found.facts["standard_error"] > 0.0
    assert found.ranker.coef_[0] < 0.0
    assert make_linear(False).fit(train.replace(propensity=None)).coef_[0] > 0.0
    assert found.facts["clip"] == 10.0
    assert 0 < found.facts["effective_clicks"] < found.facts["clicks"]


def test_plain_clicks_are_taken_where_the_weighed_model_is_shown_to_be_worse() -> None:
    # it learned that the second is wanted; on the validation lists all looked and all took the first
    train = make_lists(2000, 0)
    sure = make_lists(1000, 1, p=0.999)
    valid = sure.replace(y=np.tile([1.0, 0.0], sure.n_queries))
    found = learn_debiased(make_linear, train, valid)
    assert found.facts["chosen"] == "naive"
    assert found.facts["difference"] + 1.645 * found.facts["standard_error"] < 0.0
    assert found.ranker.coef_[0] > 0.0


def test_lists_of_one_session_count_as_one_piece_of_evidence() -> None:
    train, valid = make_lists(2000, 0), make_lists(200, 1)
    apart = learn_debiased(make_linear, train, valid).facts
    # every list told twice, both of one session: as much is known as before
    doubled = np.repeat(valid.qid * 2, 2) + np.tile([0, 1], valid.n_rows)
    twice = RankingData.from_arrays(
        np.repeat(valid.X, 2, axis=0), np.repeat(valid.y, 2), doubled,
        propensity=np.repeat(valid.propensity, 2), segments={"session_id": np.repeat(valid.qid, 2)},
    )  # fmt: skip
    joined = learn_debiased(make_linear, train, twice).facts
    assert joined["lists"] == 2 * apart["lists"]
    assert joined["difference"] == pytest.approx(apart["difference"])
    assert joined["standard_error"] == pytest.approx(apart["standard_error"])
    alone = learn_debiased(make_linear, train, twice.replace(segments={})).facts
    assert alone["standard_error"] == pytest.approx(apart["standard_error"] / np.sqrt(2), rel=0.01)


def test_validation_lists_without_a_click_say_nothing_and_weights_stay() -> None:
    valid = make_lists(50, 1)
    found = learn_debiased(make_linear, make_lists(2000, 0), valid.replace(y=np.zeros(valid.n_rows)))
    assert (found.facts["chosen"], found.facts["lists"], found.facts["difference"]) == ("weighted", 0, 0.0)


def test_a_long_log_is_weighed_as_before_to_the_last_bit() -> None:
    looks = np.tile([1.0, 0.5, 0.25, 0.05], 400)
    label = np.ones(1600)
    worth = weigh_clicks(label, looks).effective_clicks
    assert worth > 300
    drawn, power = draw_to_plain(looks, label)
    assert drawn is looks
    assert power == 1.0
    train, valid = make_lists(3000, 0), make_lists(500, 1)
    found = learn_debiased(make_linear, train, valid)
    assert found.facts["power"] == 1.0
    assert found.facts["effective_clicks"] > 300
    np.testing.assert_array_equal(
        found.weighted.predict(valid), make_linear(True).fit(train, valid=valid).predict(valid)
    )


def test_weights_of_a_short_log_are_drawn_to_1_until_its_clicks_are_worth_enough() -> None:
    label = (np.arange(2000) % 4 == 0).astype(float)  # 500 clicks
    looks = np.where(np.arange(2000) % 8 == 0, 1.0, 0.05)
    assert weigh_clicks(label, looks).effective_clicks < 300
    drawn, power = draw_to_plain(looks, label)
    assert 0.0 < power < 1.0
    assert weigh_clicks(label, drawn).effective_clicks == pytest.approx(300.0, abs=1e-6)
    np.testing.assert_allclose(drawn, np.maximum(looks, 0.1) ** power)
    assert ((drawn <= 1.0) & (drawn >= looks)).all()


def test_of_too_few_clicks_plain_ones_are_taken_and_nothing_else_is_trained() -> None:
    made: list[bool] = []

    def make(weighed: bool) -> LinearRanker:
        made.append(weighed)
        return make_linear(weighed)

    train, valid = make_lists(2000, 0), make_lists(500, 1)
    few = train[np.flatnonzero(np.bincount(train.query_index, train.y > 0) > 0)[:299]]
    found = learn_debiased(make, few, valid)
    assert made == [False]
    assert found.ranker is found.naive is found.weighted
    assert (found.facts["chosen"], found.facts["power"], found.facts["clicks"]) == ("naive", 0.0, 299)


def test_data_without_a_propensity_are_refused() -> None:
    with pytest.raises(BadInput, match="valid must have a propensity"):
        learn_debiased(make_linear, make_lists(20, 0), make_lists(20, 1).replace(propensity=None))


# -- a re-ranker -------------------------------------------------------------------------------------


def test_without_the_setting_a_column_propensity_changes_nothing(rows: Any) -> None:
    told = rows.assign(propensity=1.0 / rows["position"])
    plain, other = Reranker(ranker="ridge").fit(rows), Reranker(ranker="ridge").fit(told)
    np.testing.assert_array_equal(plain.score(rows), other.score(rows))
    assert plain.debias_ is None
    assert other.debias_ is None


def test_weights_follow_where_people_saw_an_item_and_not_the_engines_order(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debiased_fit, "WORTH", 0.0)  # however few the clicks are
    size = rows.groupby("search_id")["item_id"].transform("size")
    served = rows.assign(engine_position=rows["position"], position=size + 1 - rows["position"])
    Recorder.seen.clear()
    Reranker(ranker=Recorder(), guard=False, propensity=HALVES).fit(served)
    plain, weighed = Recorder.seen
    assert plain.propensity is None
    lists = weighed.items is not None and dict(
        zip(zip(weighed.qid.tolist(), weighed.items.tolist(), strict=True), weighed.propensity, strict=True)
    )
    shown = {(q, i): at for q, i, at in served[["search_id", "item_id", "position"]].itertuples(index=False)}
    engine = weighed.position
    assert engine is not None
    # an unlabelled row and a labelled one of the same shown position have the same propensity
    by_place = {shown[key]: set() for key in lists}
    for key, value in lists.items():
        by_place[shown[key]].add(round(float(value), 12))
    assert all(len(values) == 1 for values in by_place.values())
    assert by_place[1] != by_place[2] != by_place[3] == by_place[4]


def test_carried_labels_are_marked_and_clicked_lists_are_not(rows: Any) -> None:
    found = gather_lists(rows, 40, mark="carried")
    clicked = set(rows.loc[(rows["label"] > 0) & (rows["position"] <= 40), "search_id"])
    assert 0 < found["carried"].sum() < len(found)
    assert {name for name, part in found.groupby("search_id") if not part["carried"].any()} <= clicked
    assert not set(found.loc[found["carried"], "search_id"]) & clicked
    pd.testing.assert_frame_equal(found.drop(columns="carried"), gather_lists(rows, 40))


def test_the_column_of_the_log_and_the_curve_that_made_it_give_the_same_re_ranker(rows: Any) -> None:
    by_curve = Reranker(ranker="ridge", propensity=HALVES).fit(rows)
    told = rows.assign(propensity=HALVES.at(rows["position"]))
    by_log = Reranker(ranker="ridge", propensity="log").fit(told)
    np.testing.assert_array_equal(by_curve.score(rows), by_log.score(rows))
    assert by_curve.debias_ is not None
    assert by_log.debias_ is not None
    assert (by_curve.debias_["source"], by_log.debias_["source"]) == ("curve", "log")
    assert by_curve.debias_["rests_on"] == "randomisation"


def test_what_was_done_about_position_is_saved_and_old_bundles_load(rows: Any, tmp_path: Path) -> None:
    Reranker(ranker="ridge", propensity=HALVES).fit(rows).save(tmp_path / "new")
    Reranker(ranker="ridge").fit(rows).save(tmp_path / "old")
    told = load_reranker(tmp_path / "new").debias_
    assert told is not None
    assert told["chosen"] in ("weighted", "naive")
    assert told["effective_clicks"] > 0
    assert load_reranker(tmp_path / "old").debias_ is None
    manifest = json.loads((tmp_path / "old" / "reranker" / "manifest.json").read_text())
    assert "debias" not in manifest


def test_a_re_ranker_with_propensities_is_cloned_whole() -> None:
    copy = clone(Reranker(ranker="ridge", propensity=HALVES))
    assert copy.propensity.values.tolist() == [1.0, 0.5, 0.25]


def test_a_named_ranker_stops_early_by_clicks_over_propensities_and_a_given_one_keeps_its_metric() -> None:
    from placings.rankers.lgbm import LightGBMRanker

    named = Reranker(ranker="lightgbm", propensity=HALVES)
    assert named._make_ranker(weighed=True).metric == "dcg@10:ips"
    assert named._make_ranker().metric == "mrr"
    mean = Reranker(propensity=HALVES)._make_ranker(weighed=True)
    assert {each["metric"] for each in mean.members.values()} == {"dcg@10:ips"}
    given = Reranker(ranker=LightGBMRanker(metric="ndcg@5"), propensity=HALVES)
    assert given._make_ranker(weighed=True).metric == "ndcg@5"
