"""Prefix chains: who continues whom, and what an abandoned prefix is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from placings.logs.chains import judge_searches, lower_text, mark_chains, relate_texts

pd = pytest.importorskip("pandas")
ibis = pytest.importorskip("ibis")

START = datetime(2024, 5, 1, 8)


def chain(typed: list[tuple[str | None, str | None, float]], **options: Any) -> Any:
    """Searches s0, s1, … of (session, text, second), with their chains."""
    table = ibis.memtable(
        pd.DataFrame(
            {
                "search_id": [f"s{number}" for number in range(len(typed))],
                "session_id": pd.array([session for session, _, _ in typed], dtype="string"),
                "query": pd.array([text for _, text, _ in typed], dtype="string"),
                "time": [START + timedelta(seconds=second) for _, _, second in typed],
            }
        )
    )
    return mark_chains(table, **options)


def show(chained: Any) -> dict[str, tuple[str, int, bool]]:
    frame = chained.execute().sort_values("search_id")
    facts = zip(frame["chain_id"], frame["chain_step"], frame["chain_last"], strict=True)
    return dict(zip(frame["search_id"], facts, strict=True))


def test_growing_and_shrinking_texts_of_a_session_are_one_chain() -> None:
    typed = [("u", "h", 0), ("u", "haup", 2), ("u", "hau", 3), ("u", "Haupt ", 5)]
    assert show(chain(typed)) == {
        "s0": ("s0", 1, False), "s1": ("s0", 2, False), "s2": ("s0", 3, False), "s3": ("s0", 4, True),
    }  # fmt: skip


def test_another_text_a_long_pause_or_another_session_begins_a_chain() -> None:
    typed = [
        ("u", "ha", 0),
        ("u", "post", 2),
        ("u", "poste", 32),
        ("u", "postel", 62.1),
        ("v", "postels", 63),
    ]
    assert show(chain(typed)) == {
        "s0": ("s0", 1, True), "s1": ("s1", 1, False), "s2": ("s1", 2, True), "s3": ("s3", 1, True),
        "s4": ("s4", 1, True),
    }  # fmt: skip
    assert show(chain(typed, gap=31))["s3"] == ("s1", 3, True)


def test_without_a_session_or_a_text_nothing_is_chained() -> None:
    typed = [(None, "ha", 0), (None, "hau", 1), ("u", "", 2), ("u", "p", 3), ("u", None, 4), ("s0", "hau", 1)]
    assert all(step == 1 and last for _, step, last in show(chain(typed)).values())


def test_searches_of_one_moment_are_taken_in_the_order_of_their_ids() -> None:
    assert show(chain([("u", "ha", 0), ("u", "hau", 0)])) == {"s0": ("s0", 1, False), "s1": ("s0", 2, True)}


@pytest.mark.parametrize(
    ("first", "second", "related"),
    [
        ("haupt", "hauptbahnhof", True),
        ("hauptbahnhof", "haupt", True),
        ("hauptbanhof", "hauptbahnhof", True),  # a letter is put in
        ("haputb", "hauptbahnh", False),  # two letters changed in six
        ("hauptb", "haubtbahnh", True),  # one letter changed in six
        ("hap", "hau", False),  # too short for edits
        ("müler", "müller", True),  # ü is one letter
        ("moler", "müllerei", False),
        ("post", "hauptpost", False),
        ("", "post", False),
        ("berlin", "berlin", True),
    ],
)
def test_texts_are_related_by_prefix_and_small_edits(first: str, second: str, related: bool) -> None:
    table = ibis.memtable({"a": [first], "b": [second]})
    found = table.select(both=relate_texts(table.a, table.b), other=relate_texts(table.b, table.a)).execute()
    assert found.iloc[0].tolist() == [related, related]
    strict = table.select(x=relate_texts(table.a, table.b, edits=False)).execute()["x"][0]
    assert strict == bool(first and second and (second.startswith(first) or first.startswith(second)))


def test_folding_trims_lowers_and_keeps_accents() -> None:
    table = ibis.memtable({"text": ["  Bad\t  Ems ", "SCHÖN", "ΟΔΟΣ", "\u00a0x"]})
    assert table.select(x=lower_text(table.text)).execute()["x"].tolist() == ["bad ems", "schön", "οδοσ", "x"]


def test_an_abandoned_prefix_is_not_a_failed_search() -> None:
    typed = [
        ("u", "h", 0),
        ("u", "ha", 1),
        ("u", "hau", 2),
        ("u", "haup", 3),
        ("v", "po", 0),
        ("v", "pos", 1),
    ]
    labels = ibis.memtable({"search_id": ["s2", "s4"], "item_id": ["a", "a"], "label": [1.0, 0.0]})
    judged = judge_searches(chain(typed), labels, ibis.memtable({"search_id": ["s2", "s4"]})).execute()
    outcomes = dict(zip(judged["search_id"], judged["outcome"], strict=True))
    assert outcomes == {
        "s0": "abandoned", "s1": "abandoned", "s2": "successful",
        "s3": "failed",  # after the click, not before it
        "s4": "unmatched",  # it has an action, of grade 0
        "s5": "failed",
    }  # fmt: skip
    assert judged.set_index("search_id")["successful"].to_dict()["s2"]
