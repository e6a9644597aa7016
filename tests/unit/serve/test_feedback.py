"""Feedback: what is ours counts once, what looks forged is kept apart and said, and nobody sends too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from small_service import ITEMS, KEY, ask, count, serve_here, talk

from placings.serve.feedback import Judge, make_events, read_deed
from placings.serve.search_ids import AHEAD, LIFETIME, Signer

SHOWN = ["b", "c", "a"]
PAGE = "https://shop.example"


def make_event(search_id: str, **said: Any) -> dict[str, Any]:
    return {"event_id": "e1", "search_id": search_id, "item_id": "c", "action": "click", **said}


def find_doubt(search_id: str, *, now: float = 1000.0, **said: Any) -> str:
    return Judge(Signer(KEY)).find_doubt(read_deed(0, make_event(search_id, **said)), now=now)


def test_an_event_of_a_signed_list_is_trusted() -> None:
    ours = Signer(KEY).sign(SHOWN, now=1000.0)
    assert find_doubt(ours) == ""
    assert find_doubt(ours, items=SHOWN, position=2, visible=3) == ""


def test_forged_expired_and_future_ids_are_told_apart() -> None:
    ours, other = Signer(KEY).sign(SHOWN, now=1000.0), Signer(b"x" * 32).sign(SHOWN, now=1000.0)
    assert find_doubt(other) == "forged"
    assert find_doubt("s1") == find_doubt("é.1.2.3") == find_doubt("....") == "forged"
    head, _, signature = ours.rpartition(".")
    assert find_doubt(f"{head}x.{signature}") == "forged"
    assert find_doubt(ours, now=1000.0 + LIFETIME + 1) == "expired"
    assert find_doubt(ours, now=1000.0 + LIFETIME - 1) == ""
    assert find_doubt(ours, now=1000.0 - AHEAD - 1) == "future"  # the clock was set back
    assert find_doubt(ours, now=1000.0 - AHEAD + 1) == ""


def test_a_list_that_was_not_signed_and_a_place_that_is_not_so_are_doubted() -> None:
    ours = Signer(KEY).sign(SHOWN, now=1000.0)
    assert find_doubt(ours, items=["c", "b", "a"]) == "other list"
    assert find_doubt(ours, items=SHOWN[:2]) == "other list"
    assert find_doubt(ours, items=SHOWN, item_id="z") == "not in the list"
    assert find_doubt(ours, items=SHOWN, position=1) == "not in the list"
    assert find_doubt(ours, items=SHOWN, position=9) == "not in the list"


def test_more_events_than_one_list_can_have_are_doubted_and_repeats_are_not() -> None:
    judge, ours = Judge(Signer(KEY), most=3), Signer(KEY).sign(SHOWN, now=1000.0)

    def send(name: str) -> str:
        return judge.find_doubt(read_deed(0, make_event(ours, event_id=name)), now=1000.0)

    assert [send(name) for name in ("1", "2", "2", "2", "3")] == [""] * 5
    assert [send(name) for name in ("4", "1")] == ["too many"] * 2


def test_what_the_judge_remembers_is_bounded() -> None:
    judge, signer = Judge(Signer(KEY), most_searches=10), Signer(KEY)
    for _ in range(50):
        judge.find_doubt(read_deed(0, make_event(signer.sign(SHOWN, now=1000.0))), now=1000.0)
    assert len(judge._counts) == 10


def test_what_was_visible_is_kept() -> None:
    ours = Signer(KEY).sign(SHOWN, now=1000.0)
    deeds = [read_deed(0, make_event(ours, visible=told)) for told in (4, ["b", 7])]
    events, doubts = make_events(deeds, Judge(Signer(KEY)), "u", now=1000.0)
    assert [event.body["visible"] for event in events] == [4, ["b", "7"]]
    assert (events[0].user_id, events[0].body["time"], doubts) == ("u", "1970-01-01T00:16:40.000000Z", {})


def test_ubi_events_become_ours_and_the_same_one_again_has_the_same_id() -> None:
    told = {
        "action_name": "click_through", "query_id": "q1", "timestamp": 1730948969510,
        "event_attributes": {"object": {"object_id": "b"}, "position": {"ordinal": 2}},
    }  # fmt: skip
    one, other = read_deed(0, told), read_deed(0, {**told, "timestamp": 1730948969511})
    assert (one.texts["search_id"], one.texts["item_id"], one.texts["action"]) == ("q1", "b", "click")
    assert one.position == 2
    assert one.texts["event_id"] == read_deed(5, dict(reversed(told.items()))).texts["event_id"]
    assert one.texts["event_id"] != other.texts["event_id"]
    assert read_deed(0, {**told, "event_id": "mine"}).texts["event_id"] == "mine"


def test_forged_feedback_is_said_counted_and_kept_apart(tmp_path: Path) -> None:
    with serve_here(tmp_path) as live:

        async def say(client: Any) -> None:
            shown = (await client.post("/v1/rerank", json={"items": ITEMS})).json()
            ours = make_event(shown["search_id"], items=shown["items"])
            forged = make_event("forged.1.2.3", event_id="e2")
            told = (await client.post("/v1/feedback", json={"events": [ours, forged]})).json()
            assert told == {"new": 2, "known": 0, "untrusted": 1, "doubts": {"forged": 1}}
            again = (await client.post("/v1/feedback", json=ours)).json()
            assert (again["new"], again["known"]) == (0, 1)

        talk(live, say)
        assert [key for key, _ in live.store.read_events()] == ["e1"]
        assert [body["doubt"] for _, body in live.store.read_events(trusted=False)] == ["forged"]
        assert count(live, "events_untrusted_total", reason="forged") == 1


def test_a_beacon_of_a_named_page_is_taken_and_of_another_refused(tmp_path: Path) -> None:
    with serve_here(tmp_path, origins=(PAGE,)) as live:

        async def say(client: Any) -> None:
            body = json.dumps(make_event("s1"))
            beacon = {"content-type": "text/plain;charset=UTF-8", "origin": PAGE}
            taken = await client.post("/v1/feedback", content=body, headers=beacon)
            assert (taken.status_code, taken.headers["access-control-allow-origin"]) == (202, PAGE)
            for origin in ("https://evil.example", "null", PAGE + ".evil"):
                refused = await client.post("/v1/feedback", content=body, headers={"origin": origin})
                assert refused.status_code == 403
                assert "access-control-allow-origin" not in refused.headers
            own = await client.post("/v1/feedback", content=body, headers={"origin": "http://127.0.0.1"})
            assert own.status_code == 202

        talk(live, say)


def test_a_preflight_names_what_pages_may_send(tmp_path: Path) -> None:
    with serve_here(tmp_path, origins=(PAGE,)) as live:

        async def say(client: Any) -> None:
            asked = {"origin": PAGE, "access-control-request-method": "POST"}
            found = await client.options("/v1/feedback", headers=asked)
            assert (found.status_code, found.headers["access-control-allow-origin"]) == (204, PAGE)
            assert "POST" in found.headers["access-control-allow-methods"]
            assert "Content-Type" in found.headers["access-control-allow-headers"]
            refused = await client.options("/v1/feedback", headers={**asked, "origin": "https://evil"})
            assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)

        talk(live, say)


def test_too_much_feedback_from_one_address_or_user_is_429(tmp_path: Path) -> None:
    with serve_here(tmp_path, feedback_rate=0.1) as live:  # one at once, then one in ten seconds

        async def say(client: Any) -> None:
            first, second = [await client.post("/v1/feedback", json=make_event("s1")) for _ in range(2)]
            assert (first.status_code, second.status_code) == (202, 429)
            assert int(second.headers["retry-after"]) >= 1

        talk(live, say)
        assert count(live, "feedback_limited_total") == 1


def test_a_full_disk_is_503_for_feedback_while_lists_go_on(tmp_path: Path) -> None:
    from placings.serve.event_store import DiskFull

    with serve_here(tmp_path) as live:

        def refuse(_: Any) -> Any:
            raise DiskFull("no space left")

        live.store.add = refuse  # type: ignore[method-assign]
        found = ask(live, "POST", "/v1/feedback", json=make_event("s1"))
        assert (found.status_code, found.headers["retry-after"]) == (503, "30")
        assert ask(live, "POST", "/v1/rerank", json={"items": ITEMS}).status_code == 200
