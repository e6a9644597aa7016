"""Lists that judge a ranker had no say in when its training stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placings.data import RankingData
from placings.rankers import LightGBMRanker, LinearRanker, MeanRanker, OriginalOrder
from placings.rerank import calibration, reranker
from placings.rerank.calibration import learn_apart
from placings.rerank.guard import Guard, fit_guard


class Watcher(LinearRanker):  # type: ignore[misc]
    """A ranker that says which lists it was stopped by: its scores are how many."""

    stopped_by: list[list[Any]] = []

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        assert valid is not None
        Watcher.stopped_by.append(valid.qids.tolist())
        super()._fit(train, valid)

    def _score(self, X: Any) -> Any:
        return np.full(X.shape[0], float(len(Watcher.stopped_by)))


def make_data(lists: int, people: int | None = None) -> RankingData:
    """Lists of two rows, the second one clicked."""
    X = np.tile([[0.0], [1.0]], (lists, 1))
    who = np.repeat(np.arange(lists) % (people or lists), 2).astype(str)
    return RankingData.from_arrays(
        X, np.tile([0.0, 1.0], lists), np.repeat(np.arange(lists), 2), segments={"session_id": who}
    )


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watcher]:
    monkeypatch.setattr(Watcher, "stopped_by", [])
    return Watcher


def test_each_half_judges_the_ranker_that_the_other_half_stopped(watched: type[Watcher]) -> None:
    held = make_data(40)
    _, scores = learn_apart(lambda valid: watched().fit(make_data(10), valid=valid), held, heeds=True)
    first, second = (set(each) for each in watched.stopped_by)
    assert first | second == set(range(40))
    assert not first & second
    judged_by = scores[::2]  # of each list: 1 is the first ranker, 2 the second
    assert {int(held.qids[place]) for place in np.flatnonzero(judged_by == 1.0)} == second
    assert {int(held.qids[place]) for place in np.flatnonzero(judged_by == 2.0)} == first


def test_the_lists_of_one_person_are_on_one_side(watched: type[Watcher]) -> None:
    learn_apart(lambda valid: watched().fit(make_data(10), valid=valid), make_data(40, people=8), heeds=True)
    first, second = ({each % 8 for each in lists} for lists in watched.stopped_by)
    assert len(first) == len(second) == 4
    assert not first & second


def test_many_lists_are_judged_by_one_fit_and_those_that_stopped_it_say_nothing(
    watched: type[Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "LARGE", 30)
    _, scores = learn_apart(
        lambda valid: watched().fit(make_data(10), valid=valid), make_data(30), heeds=True
    )
    assert [len(each) for each in watched.stopped_by] == [10]  # a third
    stopped = np.isin(np.repeat(np.arange(30), 2), watched.stopped_by[0])
    np.testing.assert_array_equal(np.isnan(scores), stopped)


def test_the_lists_of_one_person_alone_judge_nothing(watched: type[Watcher]) -> None:
    _, scores = learn_apart(
        lambda valid: watched().fit(make_data(10), valid=valid), make_data(5, people=1), heeds=True
    )
    assert np.isnan(scores).all()
    assert len(watched.stopped_by) == 1


def test_a_ranker_that_looks_at_no_held_out_list_is_judged_by_all() -> None:
    ranker, scores = learn_apart(
        lambda valid: LinearRanker("ridge").fit(make_data(20), valid=valid), make_data(7), heeds=False
    )
    np.testing.assert_array_equal(scores, ranker.predict(make_data(7)))


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
    assert clicked.tolist() == [0.5] * 2 * people  # at place 2, made there or carried: too few to tell apart
    assert fitted.guard_ is not None
    assert fitted.guard_.judged_by == "propensity"
    assert fitted.guard_.verdicts[0].clusters == people // 2
