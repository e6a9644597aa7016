"""Lists that judge a ranker had no part in what it learned, nor in when it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.data import RankingData
from placings.features import numeric_features
from placings.rankers import LightGBMRanker, LinearRanker, MeanRanker, OriginalOrder
from placings.rerank import calibration, reranker
from placings.rerank.calibration import learn_apart
from placings.rerank.guard import Guard, fit_guard


class Watcher(LinearRanker):  # type: ignore[misc]
    """A ranker that says which lists it learned from and was stopped by; its scores are its number."""

    learned: list[set[Any]] = []
    stopped_by: list[set[Any]] = []

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        assert valid is not None
        Watcher.learned.append(set(train.qids.tolist()))
        Watcher.stopped_by.append(set(valid.qids.tolist()))
        self.number = float(len(Watcher.learned))
        super()._fit(train, valid)

    def _score(self, X: Any) -> Any:
        return np.full(X.shape[0], self.number)


def learn(train: RankingData, held: RankingData) -> Watcher:
    return Watcher().fit(train, valid=held)


def make_data(lists: int, people: int | None = None) -> RankingData:
    """Lists of two rows, the second one clicked."""
    X = np.tile([[0.0], [1.0]], (lists, 1))
    who = np.repeat(np.arange(lists) % (people or lists), 2).astype(str)
    return RankingData.from_arrays(
        X, np.tile([0.0, 1.0], lists), np.repeat(np.arange(lists), 2), segments={"session_id": who}
    )


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watcher]:
    monkeypatch.setattr(Watcher, "learned", [])
    monkeypatch.setattr(Watcher, "stopped_by", [])
    return Watcher


def test_each_third_is_scored_by_the_ranker_that_did_not_learn_from_it(watched: type[Watcher]) -> None:
    ranker, scores = learn_apart(learn, make_data(30), make_data(8), heeds=True)
    assert ranker.number == 1.0
    assert watched.learned[0] == set(range(30))
    assert len(watched.learned) == 5
    assert watched.stopped_by[:4] == [set(range(8))] * 4
    for number in (2, 3, 4):
        judged = set(np.flatnonzero(scores[:60:2] == number).tolist())
        assert len(judged) == 10
        assert judged == set(range(30)) - watched.learned[number - 1]


def test_lists_set_aside_are_scored_by_a_ranker_that_others_stopped(watched: type[Watcher]) -> None:
    """Lists of `train` are 0 to 29, those set aside 100 to 107, so that one cannot pass for another."""
    held = make_data(8)
    held = RankingData.from_arrays(
        held.X, held.y, 100 + np.repeat(np.arange(8), 2), segments={"session_id": held.segments["session_id"]}
    )
    _, scores = learn_apart(learn, make_data(30), held, heeds=True)
    assert set(scores[60:].tolist()) == {5.0}  # the fifth ranker, and no other
    aside = set(range(100, 108))
    assert not aside & (watched.learned[4] | watched.stopped_by[4])
    assert watched.learned[4] | watched.stopped_by[4] == set(range(30))
    assert not watched.learned[4] & watched.stopped_by[4]
    assert not np.isnan(scores).any()  # every list judges


def test_the_lists_of_one_person_are_on_one_side(watched: type[Watcher]) -> None:
    learn_apart(learn, make_data(40, people=8), make_data(5), heeds=True)
    for lists in watched.learned[1:]:
        inside, outside = ({each % 8 for each in side} for side in (lists, set(range(40)) - lists))
        assert not inside & outside


def test_many_held_out_lists_judge_one_fit_and_those_that_stopped_it_say_nothing(
    watched: type[Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "LARGE", 30)
    _, scores = learn_apart(learn, make_data(10), make_data(30), heeds=True)
    assert [len(each) for each in watched.stopped_by] == [10]  # a third
    stopped = np.isin(np.repeat(np.arange(30), 2), list(watched.stopped_by[0]))
    assert np.isnan(scores[:20]).all()
    np.testing.assert_array_equal(np.isnan(scores[20:]), stopped)


def test_the_lists_of_one_person_alone_judge_nothing(watched: type[Watcher]) -> None:
    _, scores = learn_apart(learn, make_data(5, people=1), make_data(5, people=1), heeds=True)
    assert np.isnan(scores).all()
    assert len(watched.learned) == 1


def test_many_held_out_lists_of_one_person_stop_the_training_and_judge_nothing(
    watched: type[Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "LARGE", 5)
    _, scores = learn_apart(learn, make_data(4), make_data(5, people=1), heeds=True)
    assert np.isnan(scores).all()
    assert watched.stopped_by == [set(range(5))]


@pytest.mark.parametrize("large", [5, 100])
def test_a_ranker_that_looks_at_no_held_out_list_is_judged_by_all(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "LARGE", large)
    ranker, scores = learn_apart(
        lambda train, held: LinearRanker("ridge").fit(train, valid=held),
        make_data(20), make_data(7), heeds=False,
    )  # fmt: skip
    np.testing.assert_array_equal(scores[40:], ranker.predict(make_data(7)))
    assert np.isnan(scores[:40]).all() == (large == 5)


def test_which_rankers_look_at_held_out_lists() -> None:
    heeds = calibration.heeds_valid
    assert not heeds(LinearRanker())
    assert not heeds(OriginalOrder())
    assert heeds(LightGBMRanker())
    assert not heeds(LightGBMRanker(early_stopping=None))
    assert heeds(MeanRanker(members={"ridge": {}, "lightgbm": {}}))
    assert not heeds(MeanRanker(members={"ridge": {}, "linear": {}}))


def test_a_re_ranker_gives_its_guard_people_kinds_and_what_clicks_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two searches of a session the first list was not clicked, but held what the second one did."""
    pd = pytest.importorskip("pandas")
    people = 12
    rows = pd.DataFrame(
        [
            {
                "search_id": f"{person}-{part}", "session_id": f"s{person}", "user_id": f"u{person // 2}",
                "item_id": item, "position": place, "label": float(part == 1 and item == "b"),
                "query": "lamp", "price": 1.0 + place, "propensity": 1.0 / place,
                "time": pd.Timestamp("2024-05-03") + pd.Timedelta(minutes=10 * person + part),
            }
            for person in range(people)
            for part in (0, 1)
            for place, item in enumerate("abc", 1)
        ]
    )  # fmt: skip
    told: dict[str, Any] = {}

    def spy(*given: Any, **settings: Any) -> Guard:
        told.update(settings, labels=given[2], offsets=given[3], context=given[4])
        return fit_guard(*given, **settings)

    monkeypatch.setattr(reranker, "fit_guard", spy)
    fitted = reranker.Reranker(features="shop", ranker="ridge", propensity="log").fit(rows, valid=rows)
    assert list(told["context"]) == ["length"]  # a shop's log tells no place
    assert len(set(told["clusters"].tolist())) == people // 2
    clicked = told["propensity"][told["labels"] > 0]
    assert clicked.tolist() == [0.5] * 4 * people  # at place 2, made there or carried: too few to tell apart
    assert fitted.guard_ is not None
    assert fitted.guard_.judged_by == "propensity"
    assert fitted.guard_.verdicts[0].clusters == people // 2


def test_a_kind_that_gains_has_the_models_order_and_one_that_loses_the_engines(
    tmp_path: Path,
) -> None:
    """In short searches people want the cheapest of four, in long ones what the engine has first."""
    pd = pytest.importorskip("pandas")
    source = np.random.default_rng(0)
    rows = []
    for search in range(450):
        short, prices = search % 3 > 0, source.random(4)
        wanted = int(prices.argmin()) if short else 0
        rows += [
            {
                "search_id": f"s{search}", "session_id": f"s{search}", "user_id": f"u{search % 200}",
                "item_id": str(place), "position": place + 1, "label": float(place == wanted),
                "query": "lamp" if short else "a lamp for reading", "price": price,
            }
            for place, price in enumerate(prices)
        ]  # fmt: skip
    features = numeric_features(["price"])
    fitted = reranker.Reranker(features=features, ranker="ridge").fit(pd.DataFrame(rows))
    assert fitted.guard_ is not None
    shares = {each.value: each.weight for each in fitted.guard_.verdicts}
    assert shares == {"[3, 10]": 1.0, "[11, 20]": 0.0}
    assert sum(each.searches for each in fitted.guard_.verdicts) == 450  # each judged by a ranker apart
    fitted.save(tmp_path / "kept")
    items = [{"item_id": "a", "price": 0.9}, {"item_id": "b", "price": 0.1}]
    served = reranker.load_reranker(tmp_path / "kept")
    for query, order in (("lamp", [1, 0]), ("a lamp for reading", [0, 1])):
        assert served.rerank({"context": {"query": query}, "items": items}).order.tolist() == order
