"""A log that a service wrote: learned from as its model saw it, and nobody's ids go into the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from towns import TownEngine, make_towns

from placings.rerank.reranker import Reranker, load_reranker, see_as_model
from placings.simulate.places_log import simulate_log

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def rows() -> Any:
    places = make_towns()
    return simulate_log(places, TownEngine(places), 200, k=12, random_state=0).to_rows()


def serve(rows: Any) -> Any:
    """The same searches as a model would have shown them: every list turned around."""
    size = rows.groupby("search_id")["item_id"].transform("size")
    return rows.assign(
        engine_position=rows["position"], position=size + 1 - rows["position"], shown_probability=0.5,
        arm="new", user_id="user-" + rows["session_id"].astype(str),
    )  # fmt: skip


def test_what_is_learned_from_a_served_log_does_not_depend_on_where_the_model_put_the_items(rows):
    from_engine = Reranker(ranker="ridge").fit(rows)
    from_served = Reranker(ranker="ridge").fit(serve(rows))
    assert from_served.features_.names == from_engine.features_.names
    np.testing.assert_array_equal(from_served.score(rows), from_engine.score(rows))
    np.testing.assert_array_equal(from_served.score(serve(rows)), from_engine.score(rows))
    np.testing.assert_array_equal(
        from_served.score(serve(rows), live=True), from_served.score(rows, live=True)
    )
    same_users = serve(rows).assign(user_id=rows["user_id"])  # intervals go by users
    first, second = from_engine.evaluate(rows, bootstrap=10), from_served.evaluate(same_users, bootstrap=10)
    assert first.table() == second.table()


def test_where_people_saw_an_item_is_kept_beside(rows):
    seen = see_as_model(serve(rows))
    assert seen["position"].tolist() == rows["position"].tolist()
    assert seen["shown_position"].tolist() == serve(rows)["position"].tolist()
    assert see_as_model(seen) is seen
    assert see_as_model(rows) is rows


def test_past_clicks_that_were_served_are_learned_from_and_continued(rows):
    counted = Reranker(ranker="ridge").fit(rows)
    served = serve(rows).assign(past_clicks=100.0)
    learned = Reranker(ranker="ridge").fit(served)
    shown = set(rows["item_id"].astype(str))
    assert learned.clicks_ == {item: 100 + counted.clicks_.get(item, 0) for item in shown}
    assert learned.clicks_until_ == counted.clicks_until_ == rows["time"].max().value // 1000
    np.testing.assert_array_equal(learned.score(served), learned.score(rows.assign(past_clicks=100.0)))


def test_the_time_up_to_which_clicks_were_learned_is_saved(rows, tmp_path: Path):
    learned = Reranker(ranker="ridge").fit(rows)
    learned.save(tmp_path / "kept")
    assert load_reranker(tmp_path / "kept").clicks_until_ == learned.clicks_until_ is not None


def test_no_id_of_a_person_session_or_search_is_in_a_saved_model(rows, tmp_path: Path):
    named = rows.assign(
        search_id="search-" + rows["search_id"].astype(str),
        session_id="session-" + rows["session_id"].astype(str),
    )
    Reranker(ranker="ridge").fit(serve(named)).save(tmp_path / "kept")
    content = b"".join(path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert b"sample" in content
    for word in (b"user-", b"session-", b"search-"):
        assert word not in content
