"""What a service wrote, as files that the join reads; a person and old days taken out of them again."""

from __future__ import annotations

import json
import random
from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from terminal import call_placings

from placings.core import BadFile, BadInput
from placings.logs import estimate_propensity, join_logs
from placings.rerank import Request
from placings.serve.arms import Arm, Arms, Exploration
from placings.serve.click_counts import ClickCounts
from placings.serve.event_store import FILE, Event, EventStore, ShownList, StoreBusy, connect
from placings.serve.export import export_log
from placings.serve.forgetting import compact, forget_user, prune_store
from placings.serve.service import Answer, Reply, describe, draw

pq = pytest.importorskip("pyarrow.parquet")

NOW = 1_800_000_000.0
DAY = 86_400.0


def make_shown(number: int, user: str | None = "ann", *, at: float = NOW, **told: Any) -> ShownList:
    """A list of four items that the model turned around: the engine's last is shown first."""
    results = [
        {
            "item_id": f"p{number % 3}.{place}", "position": place, "engine_position": 5 - place,
            "score": float(place), "price": 3.0 + number + place, "past_clicks": float(place),
            "shown_probability": 0.9,
        }
        for place in range(1, 5)
    ]  # fmt: skip
    body = {
        "query": f"text {number % 7}", "search_id": f"search-{number}", "user_id": user,
        "session_id": f"session-{user}", "arm": "new", "model": "abc", "fallback": None, "swapped": 0,
        "results": results, **told,
    }  # fmt: skip
    return ShownList(f"search-{number}", body, at + number, user)


def make_click(
    number: int, place: int = 2, user: str | None = "ann", *, at: float = NOW, **told: Any
) -> Event:
    body = {"item_id": f"p{number % 3}.{place}", "action": "click", "position": place, **told}
    return Event(f"event-{number}.{place}", f"search-{number}", body, at + number + 3.0, user)


def fill(folder: Path, count: int = 30, user: str = "ann", *, at: float = NOW) -> None:
    with EventStore(folder) as store:
        for number in range(count):
            store.note(make_shown(number, user, at=at))
        store.add([make_click(number, 1 + number % 4, user, at=at) for number in range(0, count, 2)]).result(
            30
        )


def read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


# -- export ----------------------------------------------------------------------------------------------


def test_the_join_reads_an_export_as_it_is_and_its_report_adds_up(tmp_path):
    fill(tmp_path / "data", 30)
    report = export_log(tmp_path / "data", tmp_path / "out")
    assert (report.searches, report.items, report.actions, report.orphans) == (30, 120, 15, 0)
    log = join_logs(str(tmp_path / "out/searches.parquet"), str(tmp_path / "out/actions.parquet"))
    assert log.report.adds_up
    assert log.report.searches["used"] == 30
    assert log.report.actions["used"] == 15
    rows = log.rows
    assert len(rows) == 15 * 4
    assert rows.loc[rows["label"] > 0, "item_id"].tolist() == [
        f"p{n % 3}.{1 + n % 4}" for n in range(0, 30, 2)
    ]
    first = rows.iloc[0]
    told = {
        "arm": "new", "model": "abc", "user_id": "ann", "session_id": "session-ann", "position": 1,
        "engine_position": 4, "shown_probability": 0.9, "past_clicks": 1.0, "price": 4.0,
    }  # fmt: skip
    assert {name: first[name] for name in told} == told


def test_far_swaps_are_exported_joined_and_read_as_they_were_drawn(tmp_path):
    """Four items, the engine's order turned round; people look at rank k once for k looks at rank 1."""
    arms = Arms((Arm("model", 1.0, ("model",)),), Exploration(0.5, 3, reach=2))
    request = Request({"query": "ulm"}, [{"item_id": item} for item in "abcd"])
    looks, drawn, clicks = random.Random(0), {}, []
    with EventStore(tmp_path / "data") as store:
        for number in range(1500):
            name = f"search-{number}"
            answer = {"model": Answer((3, 2, 1, 0), (), "m")}
            list_, chosen, reason = draw(arms, arms.arms[0], answer, list("abcd"), name)
            drawn[name] = list_
            reply = Reply(list_, "model", chosen, reason)
            body = describe(request, reply, name, arms=arms, user=name, session=name)
            store.note(ShownList(name, json.loads(json.dumps(body)), NOW + number, name))
            clicks += [
                Event(
                    f"{name}.{place}",
                    name,
                    {"item_id": item["item_id"], "action": "click"},
                    NOW + number + 3.0,
                    name,
                )
                for place, item in enumerate(body["results"], 1)
                if looks.random() < 0.5 / place
            ]
        store.add(clicks).result(30)
    export_log(tmp_path / "data", tmp_path / "out")
    log = join_logs(
        str(tmp_path / "out/searches.parquet"),
        str(tmp_path / "out/actions.parquet"),
        unsuccessful="negatives",
    )
    first = log.rows.groupby("search_id").first()
    for name, list_ in drawn.items():
        told = first.loc[name, ["swapped", "swapped_with", "swap_reach"]].tolist()
        assert told == [list_.swapped, list_.swapped_with, 2]
    curve = estimate_propensity(log)
    assert curve.method == "swaps"
    assert "two items, at most 2 places apart, were swapped" in curve.says
    assert curve.ranks.tolist() == [1, 2, 3]  # nothing is swapped below the depth
    assert (curve.low <= [1.0, 1 / 2, 1 / 3]).all()
    assert (curve.high >= [1.0, 1 / 2, 1 / 3]).all()


def test_orphans_are_counted_and_untrusted_events_are_kept_apart(tmp_path):
    with EventStore(tmp_path / "data") as store:
        store.note(make_shown(1))
        forged = Event("forged", "search-1", {"item_id": "p1.1", "action": "click"}, NOW, trusted=False)
        store.add([make_click(1), make_click(2), forged]).result(30)
    report = export_log(tmp_path / "data", tmp_path / "out")
    assert (report.actions, report.orphans, report.untrusted, report.last_event) == (1, 1, 1, 3)
    assert pq.read_table(tmp_path / "out/actions.parquet")["event_id"].to_pylist() == ["event-1.2"]
    assert pq.read_table(tmp_path / "out/untrusted.parquet")["event_id"].to_pylist() == ["forged"]
    assert json.loads((tmp_path / "out/export.json").read_text())["orphans"] == 1


def test_a_span_chooses_searches_and_their_actions_come_along(tmp_path):
    fill(tmp_path / "data", 10)
    report = export_log(tmp_path / "data", tmp_path / "out", since=NOW + 4, until=NOW + 7)
    found = pq.read_table(tmp_path / "out/searches.parquet")["search_id"].to_pylist()
    assert found == ["search-4", "search-5", "search-6"]
    assert pq.read_table(tmp_path / "out/actions.parquet")["search_id"].to_pylist() == [
        "search-4",
        "search-6",
    ]
    assert (report.actions, report.orphans) == (2, 0)


def test_an_empty_store_gives_files_of_the_same_columns(tmp_path):
    EventStore(tmp_path / "data").close()
    export_log(tmp_path / "data", tmp_path / "out")
    assert pq.read_table(tmp_path / "out/searches.parquet").num_rows == 0
    assert pq.read_table(tmp_path / "out/actions.parquet").column_names[:4] == [
        "search_id", "item_id", "time", "action",
    ]  # fmt: skip


def test_fields_of_any_kind_and_of_any_name_can_be_joined(tmp_path):
    odd = [
        {
            "label": 1,
            "results": [{"item_id": 7, "position": 1, "time": "x", "arm": "y", "lat": "49", "size": 1}],
        },
        {"note": ["a"], "results": [{"item_id": "8", "position": 1, "size": "L", "open": True}]},
        {"price": {"amount": 3}, "results": [{"item_id": "9", "position": 1, "price": {"amount": 4.5}}]},
    ]
    with EventStore(tmp_path / "data") as store:
        for number, told in enumerate(odd):
            store.note(make_shown(number, **told))
        store.add(
            [
                Event(f"e{n}", f"search-{n}", {"item_id": str(7 + n), "action": "click"}, NOW + n)
                for n in range(3)
            ]
        ).result(30)
    report = export_log(tmp_path / "data", tmp_path / "out")
    assert report.unfit == 1  # a latitude that is a text
    assert report.renamed == {
        "label": "sent_label", "time": "sent_time", "arm": "sent_arm", "price.amount": "sent_price.amount",
    }  # fmt: skip
    rows = join_logs(str(tmp_path / "out/searches.parquet"), str(tmp_path / "out/actions.parquet")).rows
    assert rows["label"].tolist() == [1.0, 1.0, 1.0]
    assert rows["size"].tolist()[:2] == ["1", "L"]


def test_the_time_that_the_features_saw_is_exported_if_it_is_near_our_clock(tmp_path):
    with EventStore(tmp_path / "data") as store:
        store.note(make_shown(0, time="2027-01-15T08:00:01.250000Z"))
        store.note(make_shown(1, time="1999-01-01T00:00:00Z"))
    export_log(tmp_path / "data", tmp_path / "out")
    times = pq.read_table(tmp_path / "out/searches.parquet")["time"].to_pylist()
    assert [each.replace(tzinfo=UTC).timestamp() for each in times] == [NOW + 1.25, NOW + 1]


def test_an_export_replaces_an_earlier_one_whole_and_nothing_else(tmp_path):
    fill(tmp_path / "data", 4)
    export_log(tmp_path / "data", tmp_path / "out")
    fill(tmp_path / "data", 6)
    assert export_log(tmp_path / "data", tmp_path / "out").searches == 6
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "out"]
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "out").iterdir()} == {0o600}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(BadFile, match="holds no export"):
        export_log(tmp_path / "data", tmp_path / "mine")
    with pytest.raises(BadFile, match="there are no events"):
        export_log(tmp_path / "mine", tmp_path / "out")


# -- forgetting ------------------------------------------------------------------------------------------


def scatter(folder: Path) -> None:
    """A hundred searches of four people, in an order that puts them on the same pages."""
    source = random.Random(0)
    with EventStore(folder) as store:
        for number in range(200):
            user = source.choice(["ann-7f3a", "bob-11", "cem-12", None])
            store.note(make_shown(number, user))
            store.add([make_click(number, 1 + number % 4, user)]).result(30)
            if number % 50 == 0:
                store._checkpoint()


def find_secrets(folder: Path, user: str) -> list[bytes]:
    with closing(connect(folder / FILE)) as connection:
        found = connection.execute("SELECT search_id FROM shown WHERE user_id = ?", (user,)).fetchall()
        events = connection.execute("SELECT event_id FROM event WHERE user_id = ?", (user,)).fetchall()
    quoted = [f'"{name}"'.encode() for (name,) in found]  # search-1 begins search-10
    return [user.encode(), *quoted, *(f"{name}".encode() for (name,) in events)]


def test_nothing_of_a_forgotten_person_is_left_in_the_bytes_beside_a_running_store(tmp_path):
    data = tmp_path / "data"
    scatter(data)
    secrets = find_secrets(data, "ann-7f3a")
    assert len(secrets) > 50
    with EventStore(data) as running:
        running.add([make_click(999, user="bob-11")]).result(30)
        assert all(secret in read_all(data) for secret in secrets)
        before = running.count()
        gone = forget_user("ann-7f3a", data)
        assert [secret for secret in secrets if secret in read_all(data)] == []
        after = running.count()
        assert (before["shown"] - after["shown"], before["events"] - after["events"]) == (
            gone.shown,
            gone.events,
        )
        assert gone.shown == gone.events > 20
        assert running.add([make_click(998, user="bob-11")]).result(30).new == 1  # it goes on
    assert b"bob-11" in read_all(data)


def test_a_forgotten_person_is_gone_from_exports_and_from_what_was_joined(tmp_path):
    data, out, rows = tmp_path / "data", tmp_path / "out", tmp_path / "rows.parquet"
    scatter(data)
    export_log(data, out)
    join_logs(str(out / "searches.parquet"), str(out / "actions.parquet")).write(rows)
    asked = "SELECT search_id FROM shown WHERE user_id = 'ann-7f3a'"
    with closing(connect(data / FILE)) as connection:
        theirs = {name for (name,) in connection.execute(asked)}
    others = {
        path: [row for row in pq.read_table(path).to_pylist() if row["search_id"] not in theirs]
        for path in (out / "searches.parquet", out / "actions.parquet", rows)
    }
    told = call_placings(
        "serve", "forget", "ann-7f3a", "--data", data, "--parquet", out, "--parquet", rows, "--json"
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["rows"][str(rows)] == 4 * len(theirs)
    for path, kept in others.items():
        pages = pq.read_table(path)
        assert pages.to_pylist() == kept
        plain = tmp_path / "plain.parquet"
        pq.write_table(pages, plain, compression="NONE", use_dictionary=False)
        for content in (plain.read_bytes(), path.read_bytes()):
            assert b"ann-7f3a" not in content
        assert theirs.isdisjoint(pages["search_id"].to_pylist())


def test_searches_of_their_session_before_they_said_who_they_are_go_too(tmp_path):
    with EventStore(tmp_path) as store:
        store.note(make_shown(1, None, session_id="s-ann"))
        store.note(make_shown(2, "ann", session_id="s-ann"))
        store.note(make_shown(3, "bob", session_id="s-ann"))  # a device that two people share
        store.note(make_shown(4, None, session_id="other"))
    assert forget_user("ann", tmp_path).shown == 2
    with EventStore(tmp_path) as store:
        assert [key for key, _ in store.read_shown()] == ["search-3", "search-4"]


def test_a_reader_that_holds_the_old_pages_is_said(tmp_path):
    fill(tmp_path, 5)
    with closing(connect(tmp_path / FILE)) as reader, closing(connect(tmp_path / FILE)) as writer:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM shown").fetchone()
        writer.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(StoreBusy, match="reader still holds"):
            compact(writer, patience=0.1)
        reader.execute("ROLLBACK")
        compact(writer)


def test_a_file_in_which_nobody_can_be_found_is_refused_before_anything_is_changed(tmp_path):
    import pyarrow as pa

    fill(tmp_path / "data", 5)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(BadFile, match="none of the columns"):
        forget_user("ann", tmp_path / "data", [tmp_path / "x.parquet"])
    with EventStore(tmp_path / "data") as store:
        assert store.count()["shown"] == 5


# -- retention -------------------------------------------------------------------------------------------


def test_pruning_takes_old_searches_with_their_events_and_makes_no_orphans(tmp_path):
    with EventStore(tmp_path) as store:
        for number, age in enumerate((100, 60, 20.00001, 1)):
            store.note(make_shown(number, at=NOW - age * DAY - number))
        late = Event("late", "search-2", {"item_id": "p2.1", "action": "click"}, NOW - 19 * DAY, "ann")
        alone = [Event(f"a{age}", "nothing", {}, NOW - age * DAY) for age in (30, 5)]
        store.add([make_click(0, at=NOW - 100 * DAY), late, *alone]).result(30)
    gone = prune_store(tmp_path, 20, now=NOW)
    assert (gone.shown, gone.events) == (3, 3)
    with EventStore(tmp_path) as store:
        assert [key for key, _ in store.read_shown()] == ["search-3"]
        assert [key for key, _ in store.read_events()] == ["a5"]
    assert prune_store(tmp_path, 20, now=NOW).shown == 0


def test_events_that_may_still_come_again_are_kept(tmp_path):
    with pytest.raises(BadInput, match="keep_days must be 8 or more"):
        prune_store(tmp_path, 3)
    told = call_placings("serve", "prune", "--keep-days", 3, "--data", tmp_path)
    assert told.returncode != 0
    assert "must be 8 or more" in told.stderr


# -- past clicks -----------------------------------------------------------------------------------------


def test_past_clicks_follow_what_other_processes_commit_and_what_the_join_will_count(tmp_path):
    with EventStore(tmp_path) as store:
        clicks = ClickCounts(store.path, {"p1.2": 5}, until=round((NOW + 0.5) * 1e6))
        for number in range(3):
            store.note(make_shown(number))
        store.add(
            [
                make_click(0),  # of a search that the model learned from
                make_click(1),
                Event("again", "search-1", {"item_id": "p1.2", "action": "purchase"}, NOW),  # the same item
                Event("look", "search-2", {"item_id": "p2.1", "action": "hover"}, NOW),
                Event("elsewhere", "search-2", {"item_id": "p9.9", "action": "click"}, NOW),
                Event("forged", "search-2", {"item_id": "p2.3", "action": "click"}, NOW, trusted=False),
                Event("orphan", "search-7", {"item_id": "p2.4", "action": "click"}, NOW),
            ]
        ).result(30)
        assert clicks.follow(now=True) == 1
        assert [clicks.look_up(name) for name in ("p1.2", "p0.2", "p2.1", "p9.9", "p2.3", "p2.4")] == [
            6, 0, 0, 0, 0, 0,
        ]  # fmt: skip
        assert clicks.follow(now=True) == 0


def test_a_click_that_is_written_before_its_list_counts_once_the_list_is_there(tmp_path):
    with EventStore(tmp_path) as store:
        clicks = ClickCounts(store.path, {})
        store.add([make_click(1)]).result(30)
        assert clicks.follow(now=True) == 0
        store.note(make_shown(1))
        assert store.sync()
        assert clicks.follow(now=True) == 1
        assert clicks.follow(now=True) == 0
        assert clicks.look_up("p1.2") == 1


def test_past_clicks_are_read_again_only_after_the_delay(tmp_path):
    moment = [100.0]
    with EventStore(tmp_path) as store:
        clicks = ClickCounts(store.path, {}, delay=2.0, clock=lambda: moment[0])
        assert clicks.follow() == 0
        store.note(make_shown(1))
        store.add([make_click(1)]).result(30)
        moment[0] = 101.9
        assert clicks.follow() == 0
        moment[0] = 102.0
        assert clicks.follow() == 1


def test_clicks_of_a_forgotten_person_no_longer_count(tmp_path):
    with EventStore(tmp_path) as store:
        clicks = ClickCounts(store.path, {})
        store.note(make_shown(1, "ann"))
        store.note(make_shown(4, "bob"))
        store.add([make_click(1, user="ann"), make_click(4, user="bob")]).result(30)
        clicks.follow(now=True)
        assert clicks.look_up("p1.2") == 2
        forget_user("ann", tmp_path)
        clicks.follow(now=True)
        assert clicks.look_up("p1.2") == 1


def test_a_store_that_cannot_be_read_leaves_the_counts_as_they_are(tmp_path):
    fill(tmp_path, 4)
    clicks = ClickCounts(tmp_path / FILE, {})
    clicks.follow(now=True)
    known = [clicks.look_up(f"p{n}.{m}") for n in range(3) for m in range(1, 5)]
    (tmp_path / FILE).rename(tmp_path / "away")
    assert clicks.follow(now=True) == 0
    assert [clicks.look_up(f"p{n}.{m}") for n in range(3) for m in range(1, 5)] == known
    assert sum(known) == 2


# -- the supervisor --------------------------------------------------------------------------------------


def test_a_service_that_keeps_some_days_prunes_at_its_start_and_again(tmp_path, monkeypatch):
    import asyncio

    from placings.core import PlacingsError
    from placings.serve import supervisor
    from placings.serve.forgetting import Removed
    from placings.serve.settings import ServeSettings

    calls: list[tuple[str, float]] = []

    def prune(data: str, days: float) -> Removed:
        calls.append((data, days))
        if len(calls) == 1:
            raise PlacingsError("the disk is busy")  # is said, and tried again
        return Removed(0, 0, {})

    monkeypatch.setattr(supervisor, "prune_store", prune)
    monkeypatch.setattr(supervisor, "A_DAY", 0.001)

    async def watch() -> None:
        task = asyncio.create_task(
            supervisor.Supervisor(ServeSettings("model", data="here", keep_days=30.0))._prune()
        )
        while len(calls) < 3:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(watch())
    assert set(calls) == {("here", 30.0)}
    with pytest.raises(BadInput, match="keep_days must be 8 or more"):
        ServeSettings("model", keep_days=7.5)
