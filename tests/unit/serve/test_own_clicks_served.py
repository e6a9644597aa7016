"""What a service shows its model of a person: their own clicks but for this session, unless they opt out."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_service import FakeModel, ask, serve_here

from placings.core import BadBundle, read_bundle
from placings.features import FeatureSet, Number
from placings.logs import OwnClicks, hash_user, join_logs
from placings.rerank import Reranker, load_reranker
from placings.serve.click_counts import ClickCounts
from placings.serve.event_store import Event, EventStore, ShownList
from placings.serve.export import export_log
from placings.serve.forgetting import forget_user
from placings.serve.kept_models import keep_model
from placings.serve.live import LiveModels

pd = pytest.importorskip("pandas")

NOW = 1_800_000_000.0
DAY = 86_400.0
EPOCH = datetime(1970, 1, 1)
AT = EPOCH + timedelta(seconds=NOW)


def show(store: EventStore, number: int, session: str | None, days: float = 0.0, **told: Any) -> None:
    """Ann's list of two items, some days ago."""
    body = {"session_id": session, "results": [{"item_id": "a"}, {"item_id": "b"}], **told}
    store.note(ShownList(f"s{number}", body, NOW - days * DAY, "ann"))


def click(store: EventStore, number: int, item: str = "a") -> None:
    store.add([Event(f"e{number}", f"s{number}", {"item_id": item, "action": "click"}, NOW, "ann")]).result(
        30
    )


def test_past_clicks_leave_out_those_of_the_session_that_asks(tmp_path: Path) -> None:
    with EventStore(tmp_path) as store:
        for number, session in enumerate(["one", "one", "two", None]):
            show(store, number, session)
            click(store, number)
        counts = ClickCounts(store.path, {"a": 10})
        assert counts.follow(now=True) == 4
        assert [counts.look_up("a", session) for session in ("one", "two", "three", None)] == [12, 13, 14, 14]
        assert counts.look_up("b", "one") == 0


def test_own_clicks_are_those_learned_and_those_since_but_for_the_session(tmp_path: Path) -> None:
    learned = OwnClicks(1.0, {hash_user("ann"): {"a": (4.0, round((NOW - 2 * DAY) * 1e6))}})
    with EventStore(tmp_path) as store:
        show(store, 0, "one", days=1.0)
        show(store, 1, "now")
        click(store, 0)
        click(store, 1, "b")
        counts = ClickCounts(store.path, {}, own=learned)
        counts.follow(now=True)
        # a: 4 clicks, halved in a day, and one more; halved again by now
        found = counts.look_up_own("ann", ["a", "b"], AT, session="now")
        np.testing.assert_allclose(found, [1.5, 0.0], rtol=1e-12)
        found = counts.look_up_own("ann", ["a", "b"], AT, session="later")
        np.testing.assert_allclose(found, [1.5, 1.0], rtol=1e-12)
        np.testing.assert_allclose(counts.look_up_own("ann", ["a"], AT, session="one"), [1.0], rtol=1e-12)
        for told in ({"user": "bob"}, {"user": None}, {"user": "ann", "no_history": True}):
            assert counts.look_up_own(**{"items": ["a"], "time": AT, **told}).tolist() == [0.0]
        assert ClickCounts(store.path, {}).look_up_own("ann", ["a"], AT) is None


def test_clicks_on_lists_that_were_asked_for_without_history_are_not_kept(tmp_path: Path) -> None:
    with EventStore(tmp_path) as store:
        show(store, 0, "one", no_history=True)
        click(store, 0)
        counts = ClickCounts(store.path, {}, own=OwnClicks())
        assert counts.follow(now=True) == 1  # it is a past click of the item, of nobody
        assert counts.look_up("a", "two") == 1
        assert counts.look_up_own("ann", ["a"], AT).tolist() == [0.0]
        assert counts._people == {}


def test_histories_that_came_in_since_go_with_a_forgotten_person(tmp_path: Path) -> None:
    with EventStore(tmp_path) as store:
        show(store, 0, "one")
        click(store, 0)
        counts = ClickCounts(store.path, {}, own=OwnClicks())
        counts.follow(now=True)
        assert counts.look_up_own("ann", ["a"], AT).tolist() == [1.0]
        forget_user("ann", tmp_path)
        counts.follow(now=True)
        assert counts.look_up_own("ann", ["a"], AT).tolist() == [0.0]


def test_clicks_on_the_last_search_of_the_training_log_are_not_counted_again(tmp_path: Path) -> None:
    """An export has the caller's time of a search, a store the service's: up to when was learned is the
    former."""
    clocks = [AT - timedelta(seconds=60), AT + timedelta(seconds=60), None]  # slow, fast, and none told
    with EventStore(tmp_path / "data") as store:
        for number, time in enumerate(clocks):
            show(store, number, f"session {number}", time=None if time is None else time.isoformat() + "Z")
            event = Event(f"e{number}", f"s{number}", {"item_id": "a", "action": "click"}, NOW + 90.0, "ann")
            store.add([event]).result(30)
        export_log(tmp_path / "data", tmp_path / "out")
        rows = join_logs(str(tmp_path / "out/searches.parquet"), str(tmp_path / "out/actions.parquet")).rows
        times = rows[rows["label"] > 0].set_index("search_id")["time"]
        # a log that ends with this search: how many of the three are newer
        for last, newer in (("s0", 2), ("s2", 1), ("s1", 0)):
            counts = ClickCounts(store.path, {"a": 3 - newer}, until=times[last].value // 1000)
            assert counts.follow(now=True) == newer
            assert counts.look_up("a") == 3


# -- through the service ------------------------------------------------------------------------------------


def read_last(live: Any) -> dict[str, Any]:
    assert live.store.sync()
    *_, (_, body) = live.store.read_shown(0.0, 4e9)
    return dict(body)


@pytest.fixture
def live(tmp_path: Path) -> Any:
    with serve_here(tmp_path, FakeModel()) as service:
        learned = OwnClicks(30.0, {hash_user("ann"): {"b": (3.0, 4 * 10**15)}})  # in 2096: never faded
        counts = ClickCounts(service.store.path, {"a": 2}, own=learned)
        service.replace_models(LiveModels({"model": FakeModel()}, {"model": counts}))
        yield service


def rerank(live: Any, *, context: Any = None, **headers: str) -> dict[str, Any]:
    items = [{"item_id": "a", "price": 1.0}, {"item_id": "b", "price": 2.0}]
    told = {"items": items, **({} if context is None else {"context": context})}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    assert ask(live, "POST", "/v1/rerank", json=told, headers=names).status_code == 200
    body = read_last(live)
    return {"own": {item["item_id"]: item["own_clicks"] for item in body["results"]}, **body}


def test_the_value_that_the_model_is_shown_is_written_into_the_impression(live: Any) -> None:
    body = rerank(live, X_Placings_User="ann")
    assert body["own"] == {"a": 0.0, "b": 3.0}
    assert {item["past_clicks"] for item in body["results"]} == {2.0, 0.0}
    assert "no_history" not in body
    assert rerank(live, X_Placings_User="bob")["own"] == {"a": 0.0, "b": 0.0}
    assert rerank(live)["own"] == {"a": 0.0, "b": 0.0}


def test_who_opts_out_by_header_or_context_is_shown_as_a_stranger_and_the_log_says_so(live: Any) -> None:
    for told in ({"X_Placings_No_History": "1"}, {"context": {"no_history": True}}):
        body = rerank(live, X_Placings_User="ann", **told)
        assert body["own"] == {"a": 0.0, "b": 0.0}
        assert body["no_history"] is True
        assert body["user_id"] == "ann"
    assert rerank(live, X_Placings_User="ann", X_Placings_No_History="0")["own"] == {"a": 0.0, "b": 3.0}


def test_an_export_has_both_columns_and_a_re_ranker_learns_from_them(live: Any, tmp_path: Path) -> None:
    pytest.importorskip("ibis")
    people = ["ann", "bob"] * 12
    for number, person in enumerate(people):
        out = {"X_Placings_No_History": "1"} if person == "bob" and number == 5 else {}
        shown = rerank(live, X_Placings_User=person, X_Placings_Session=f"s{number}", **out)
        event = {"event_id": f"e{number}", "search_id": shown["search_id"], "item_id": "ab"[number % 3 > 0],
                 "action": "click"}  # fmt: skip
        assert ask(live, "POST", "/v1/feedback", json=event).status_code == 202
    live.store.sync()
    export_log(tmp_path / "data", tmp_path / "out")
    log = join_logs(str(tmp_path / "out/searches.parquet"), str(tmp_path / "out/actions.parquet"))
    rows = log.rows
    assert rows["no_history"].eq(True).sum() == 2  # one list of two items
    assert set(rows.loc[(rows["user_id"] == "ann") & (rows["item_id"] == "b"), "own_clicks"]) == {3.0}
    learned = Reranker(FeatureSet([Number("price")]), "ridge", False, history=True).fit(rows)
    assert learned.own_clicks_ is not None
    assert list(learned.own_clicks_.people) == [hash_user("ann")]  # bob opted out once
    now = EPOCH + timedelta(microseconds=learned.own_clicks_.until or 0)
    clicks = sum(person == "ann" and number % 3 > 0 for number, person in enumerate(people))
    found = learned.own_clicks_.look_up("ann", ["b"], now)
    assert found[0] == pytest.approx(3.0 + clicks, rel=1e-3)  # the first value served, and the clicks since


# -- what is left of a person -------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    rows = pd.DataFrame(
        {
            "search_id": np.repeat(np.arange(24), 2), "session_id": np.repeat(np.arange(24), 2),
            "user_id": np.repeat(["ann", "bob"] * 12, 2), "item_id": ["a", "b"] * 24, "position": [1, 2] * 24,
            "label": [0.0, 1.0] * 24, "price": [1.0, 2.0] * 24,
            "time": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.repeat(np.arange(24), 2), unit="h"),
        }
    )  # fmt: skip
    Reranker(FeatureSet([Number("price")]), "ridge", False, history=True).fit(rows).save(tmp_path / "model")
    return tmp_path / "model"


def test_forget_takes_a_person_out_of_named_models_and_names_copies_that_hold_them(
    saved: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with EventStore(data):
        kept, digest = keep_model(str(saved), data)
    found = forget_user("ann", data, models=[saved])
    assert found.models == (str(saved),)
    assert found.left_in == (kept,)  # the running service's copy, until it is given another
    fresh = load_reranker(saved)
    assert fresh.own_clicks_ is not None
    assert (fresh.own_clicks_.knows("ann"), fresh.own_clicks_.knows("bob")) == (False, True)
    assert hash_user("ann").encode() not in b"".join(
        path.read_bytes() for path in saved.rglob("*") if path.is_file()
    )
    with pytest.raises(BadBundle):
        load_reranker(saved, digest=digest)
    again = forget_user("ann", data, models=[saved])
    assert (again.models, again.left_in) == ((), (kept,))
    assert forget_user("nobody", data).left_in == ()


def test_forget_leaves_a_model_all_that_was_measured_of_it(saved: Path, tmp_path: Path) -> None:
    reranker = load_reranker(saved)
    reranker.debias_ = {"chosen": "weighted", "difference": 0.25}
    reranker.save(saved, metrics={"mrr": 0.75})
    before = {part: read_bundle(saved / part) for part in ("model", "reranker")}
    with EventStore(tmp_path / "data"):
        pass
    assert forget_user("ann", tmp_path / "data", models=[saved]).models == (str(saved),)
    after = {part: read_bundle(saved / part) for part in ("model", "reranker")}
    of_saving = {"created", "versions", "digest", "files", "model"}  # when, with what, and what was written
    for part, bundle in before.items():
        facts = [
            {k: v for k, v in each.manifest.items() if k not in of_saving} for each in (bundle, after[part])
        ]
        assert facts[0] == facts[1]
        changed = {name for name in bundle.files if bundle.files[name] != after[part].files.get(name)}
        assert changed == ({"own_clicks.json"} if part == "reranker" else set())
        assert bundle.files.keys() == after[part].files.keys()
    assert after["model"].manifest["metrics"] == {"mrr": 0.75}
    assert load_reranker(saved).debias_ == {"chosen": "weighted", "difference": 0.25}
