"""Which column of a table plays which part: named, recorded in the table, or guessed and said."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from placings.data.tables import from_table
from placings.errors import BadInput, Guess, UnknownName

NAMED: dict[str, Any] = {"qid": "qid", "label": "label"}


def make_table(**columns: Any) -> pa.Table:
    return pa.table({"qid": [1, 1, 2], "label": [1.0, 0.0, 2.0], **columns})


def test_all_guesses_are_said_in_one_warning() -> None:
    table = pa.table({
        "Query-ID": ["a", "a", "b"], "bm25": [1, 2, 3], "doc_id": ["x", "y", "z"], "REL": [0, 1, 2],
        "shown": pa.array([0, 1, 2], pa.timestamp("s")), "country": ["de", "de", "fr"], "weight": [1, 2, 3],
    })  # fmt: skip
    with pytest.warns(Guess) as caught:
        data = from_table(table, source="log.csv")
    assert len(caught) == 1
    assert str(caught[0].message).startswith(
        "log.csv: guessed qid='Query-ID', label='REL', item='doc_id', time='shown'. Name columns with qid="
    )
    assert data.qids.tolist() == ["a", "b"]
    assert data.y.tolist() == [0, 1, 2]
    assert data.items.tolist() == ["x", "y", "z"]  # type: ignore[union-attr]
    assert data.feature_names == ("bm25", "weight")  # weight is a feature unless named
    assert data.weight is None
    assert data.segments["country"].tolist() == ["de", "de", "fr"]
    assert data.time is not None
    assert data.time.dtype == "M8[s]"


@pytest.mark.parametrize(
    ("columns", "qid"),
    [(["query", "query_id"], "query_id"), (["session_id", "query"], "query"), (["srch_id"], "srch_id"),
     (["queryId", "event"], "queryId"), (["query id"], "query id")],
)  # fmt: skip
def test_the_better_name_is_guessed(columns: list[str], qid: str) -> None:
    table = pa.table({**{name: [1, 2] for name in columns}, "label": [0, 1]})
    with pytest.warns(Guess, match=f"qid='{qid}'"):
        from_table(table)


def test_a_label_of_numbers_is_guessed_before_one_of_text() -> None:
    with pytest.warns(Guess, match="label='rating'"):
        data = from_table(pa.table({"qid": [1], "label": ["good"], "rating": [4]}))
    assert data.y.tolist() == [4]


def test_named_columns_say_nothing_and_win() -> None:
    table = make_table(pos=[1, 2, 1], w=[1.0, 2.0, 0.0], p=[0.5, 0.25, 1.0], when=[3, 4, 5], a=[1, 2, 3])
    data = from_table(table, **NAMED, position="pos", weight="w", propensity="p", time="when")
    assert data.feature_names == ("a",)
    assert [data.position.tolist(), data.weight.tolist()] == [[1, 2, 1], [1, 2, 0]]  # type: ignore[union-attr]
    assert [data.propensity.tolist(), data.time.tolist()] == [[0.5, 0.25, 1], [3, 4, 5]]  # type: ignore[union-attr]


def test_named_features_keep_their_order_and_may_share_a_column_with_position() -> None:
    data = from_table(
        make_table(b=[1, 2, 3], a=[4, 5, 6], c=[1, 1, 2]), **NAMED, features=["a", "b"], position="b"
    )
    assert data.feature_names == ("a", "b")
    assert data.X.tolist() == [[4, 1], [5, 2], [6, 3]]
    assert data.position.tolist() == [1, 2, 3]  # type: ignore[union-attr]


def test_item_time_and_segments_can_be_declined() -> None:
    table = make_table(id=["x", "y", "z"], ts=pa.array([0, 1, 2], pa.timestamp("s")), a=[1, 2, 3])
    data = from_table(table, **NAMED, item=False, time=False, segments=(), features=["a"])
    assert (data.items, data.time, dict(data.segments)) == (None, None, {})


def test_two_timestamps_are_nobodys_time_and_columns_left_out_are_said() -> None:
    stamp = pa.array([0, 1, 2], pa.timestamp("s"))
    table = make_table(a=[1, 2, 3], t1=stamp, t2=stamp, vector=[[1.0], [2.0], [3.0]])
    with pytest.warns(Guess, match=r"left out \('t1': timestamp\[s\], 't2': .*'vector': list"):
        data = from_table(table, **NAMED)
    assert data.feature_names == ("a",)
    assert data.time is None


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_a_saved_pandas_index_is_no_feature_unless_named(name: str) -> None:
    table = make_table(**{name: [0, 1, 2]}, a=[1, 2, 3])
    with pytest.warns(Guess, match="left out"):
        assert from_table(table, **NAMED).feature_names == ("a",)
    assert from_table(table, **NAMED, features=[name]).feature_names == (name,)


def test_a_text_column_that_is_mostly_numbers_is_said() -> None:
    table = make_table(price=["1.5", "n/a", "2"], shop=["a", "b", "3"], zip=["01", "02", "03"])
    with pytest.warns(Guess, match=r"segment 'price', mostly numbers but also 'n/a'") as caught:
        data = from_table(table, **NAMED)
    assert "shop" not in str(caught[0].message)
    assert "zip" not in str(caught[0].message)  # all of them numbers: an id kept as text
    assert list(data.segments) == ["price", "shop", "zip"]
    from_table(table, **NAMED, segments=["price"])


def test_a_column_that_does_not_exist_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="'lable'; did you mean 'label'"):
        from_table(make_table(), qid="qid", label="lable")
    with pytest.raises(UnknownName, match="'pricee'; did you mean 'price'"):
        from_table(make_table(price=[1, 2, 3]), **NAMED, features=["pricee"])


def test_no_fitting_column_lists_what_there_is() -> None:
    with pytest.raises(
        BadInput, match=r"looks like the qid. Pass qid= with one of its columns: 'a', 'label'"
    ):
        from_table(pa.table({"a": [1], "label": [0]}))
    with pytest.raises(BadInput, match="Pass label="):
        from_table(pa.table({"qid": [1], "score": [0]}))


def test_a_column_plays_one_part() -> None:
    with pytest.raises(BadInput, match="'qid' of the table is named as label and as qid"):
        from_table(make_table(), qid="qid", label="qid")
    with pytest.raises(BadInput, match="named as label and as a feature"):
        from_table(make_table(), **NAMED, features=["label"])


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array([1])], ["qid", "label", "qid"])
    with pytest.raises(BadInput, match="two columns named 'qid'"):
        from_table(table)
