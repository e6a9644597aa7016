"""A budget of time: a run ends before the check it would not reach, and can be repeated by its steps."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import assert_same_state, copy_state, make_data, make_network, make_plan

import placings as pg
from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.losses import find_loss
from placings.metrics import metric
from placings.rankers.presets import settle
from placings.training import loop
from placings.training.clocks import PROBE, Timekeeper, TrainingClock
from placings.training.plans import History
from placings.training.progress import expect_end

DATA, VALID = make_data(), make_data(seed=1)


class Hands:
    """A clock that moves by `pace` seconds a step and `check` a check, and by nothing else."""

    def __init__(self, pace: float = 1.0, check: float = 0.0) -> None:
        self.pace, self.check, self.time = pace, check, 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    found = Hands()
    take, check = loop.take_steps, loop.Watch.check

    def take_timed(job: Any, start: int, stop: int, *rest: Any) -> Any:
        found.time += found.pace * (stop - start)
        return take(job, start, stop, *rest)

    def check_timed(watch: Any) -> float:
        found.time += found.check
        return check(watch)

    monkeypatch.setattr(loop, "take_steps", take_timed)
    monkeypatch.setattr(loop.Watch, "check", check_timed)
    return found


def run(
    hands: Hands | None = None, budget: float = 0.0, *, valid: RankingData | None = VALID, **more: Any
) -> tuple[dict[str, np.ndarray], History]:
    checkpoint = more.pop("checkpoint", None)
    network = make_network(DATA)
    clock = None if hands is None else TrainingClock(budget, now=hands)
    plan = make_plan(**{"steps": 60, "check_every": 10, "budget": budget, **more})
    history = loop.train(
        network, find_loss("softmax"), DATA, plan, valid=valid, metric=metric("ndcg@5"), clock=clock,
        checkpoint=checkpoint, checkpoint_every=10,
    )  # fmt: skip
    return copy_state(network), history


def test_a_block_that_would_not_reach_the_next_check_is_not_begun(hands: Hands) -> None:
    state, history = run(hands, 35.0)
    assert len(history.loss) == 30  # ten more would take until second 40
    assert history.ended == "budget"
    assert history.seconds == 30.0
    repeated, again = run(steps=30)
    assert again.ended == "steps"
    assert again == history.__class__(**{**history.to_dict(), "ended": "steps"})
    assert_same_state(repeated, state)


def test_the_time_of_a_check_counts(hands: Hands) -> None:
    hands.check = 4.0
    assert len(run(hands, 35.0)[1].loss) == 20  # 10 + 4 + 10 + 4, and 14 more would end at 42


def test_a_budget_too_short_for_one_check_still_ends_with_one(hands: Hands) -> None:
    _, history = run(hands, 9.0)
    assert len(history.loss) == 9
    assert [step for step, _ in history.checks] == [9]
    assert history.best_step == 9
    assert len(run(hands, 1e-9)[1].loss) == 2 * PROBE  # the speed is known only then


def test_without_held_out_data_the_steps_that_fit_are_taken(hands: Hands) -> None:
    _, history = run(hands, 35.0, valid=None)
    assert len(history.loss) == 35
    assert history.ended == "budget"


def test_a_large_budget_changes_nothing(hands: Hands) -> None:
    state, history = run(hands, 1e9)
    plain, without = run()
    assert history == without
    assert history.ended == "steps"
    assert_same_state(plain, state)


def test_patience_is_told(hands: Hands) -> None:
    _, history = run(hands, 1e9, patience=1, lr=1e-12)
    assert history.ended == "patience"


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_schedule_goes_by_the_steps_that_fit(hands: Hands, average: float) -> None:
    state, history = run(hands, 50.0, schedule="cosine", average=average, optimizer="adamw")
    assert history.planned == 40  # of 50 seconds 8 went to the steps that told the speed
    assert len(history.loss) == 40
    assert history.lr[-1] == pytest.approx(0.1 * 0.5 * (1 + np.cos(np.pi * 39 / 40)))
    repeated, again = run(steps=40, schedule="cosine", average=average, optimizer="adamw")
    assert again.loss == history.loss
    assert_same_state(repeated, state)


def test_a_run_that_goes_on_has_spent_what_it_spent(hands: Hands, tmp_path: Path) -> None:
    path = tmp_path / "run"
    _, first = run(hands, 35.0, checkpoint=path)
    assert len(first.loss) == 30
    hands.time = 0.0
    _, same = run(hands, 35.0, checkpoint=path)
    assert len(same.loss) == 30  # there is no more room than there was
    hands.time = 0.0
    state, more = run(hands, 55.0, checkpoint=path)
    assert len(more.loss) == 50
    assert more.seconds == 50.0
    straight, _ = run(steps=50)
    assert_same_state(straight, state)


def test_a_timekeeper_counts_whole_checks() -> None:
    clock = TrainingClock(100.0, now=lambda: 0.0)
    keeper = Timekeeper(clock)
    assert keeper.expect_steps(make_plan(steps=70, check_every=20)) == 70  # nothing is known
    keeper.note(4, 9.0)  # what was made ready in it does not count
    keeper.note(4, 4.0)
    keeper.check = 5.0
    assert keeper.expect_steps(make_plan(steps=1000, check_every=20)) == 80  # four times 20 + 5 seconds
    assert keeper.expect_steps(make_plan(steps=70, check_every=20)) == 70
    assert keeper.expect_steps(make_plan(steps=1000, check_every=500)) == 500  # one at least


def test_the_bar_ends_where_the_run_will() -> None:
    times = count(0.0, 1.0)  # a second passes whenever someone looks
    clock = TrainingClock(100.0, now=lambda: next(times))
    assert expect_end(5, 1000, clock, (0, 0.0)) == 1000  # too soon to say
    later = TrainingClock(100.0, now=iter([0.0, 20.0, 20.0]).__next__)
    assert expect_end(40, 1000, later, (0, 0.0)) == 200  # two steps a second, 80 seconds left
    unbound = TrainingClock(now=iter([0.0, 20.0]).__next__)
    assert expect_end(40, 1000, unbound, (0, 0.0)) == 1000


@pytest.mark.parametrize(
    ("given", "seconds"), [("15m", 900.0), ("1h30m", 5400.0), (45, 45.0), ("none", 0.0), (0, 0.0)]
)
def test_a_budget_is_a_length_of_time(given: Any, seconds: float) -> None:
    assert settle("default", {"budget": given}).budget == seconds


def test_the_default_ends_after_a_quarter_of_an_hour_and_presets_of_papers_do_not() -> None:
    assert settle("default", {}).budget == settle("default", {}, 10**6).budget == 900.0
    assert settle("zhuang2020", {}).budget == settle("thesis-fc-32", {}).budget == 0.0
    with pytest.raises(BadInput, match="budget must be a length of time"):
        settle("default", {"budget": "soon"})


def test_a_ranker_ends_in_time_and_is_repeated_by_its_steps() -> None:
    few: dict[str, Any] = {"hidden": [4], "members": 1, "check_every": 5, "patience": 10**6, "device": "cpu"}
    short = pg.NeuralRanker(**few, steps=10**6, budget="0.5s", random_state=0).fit(DATA, valid=VALID)
    assert short.history_.ended == "budget"
    taken = len(short.history_.loss)
    assert 0 < taken < 10**5
    again = pg.NeuralRanker(**few, steps=taken, budget="none", random_state=0).fit(DATA, valid=VALID)
    np.testing.assert_array_equal(again.predict(DATA), short.predict(DATA))
