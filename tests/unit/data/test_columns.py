"""Which column of a table plays which part: named, recorded in the table, or guessed and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from placings.core.errors import BadInput, Guess, LeftOut, UnknownName
from placings.data.ranking import RankingData
from placings.data.tables import GUESSES, LEAKS, from_table

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


@pytest.mark.filterwarnings("ignore::placings.core.errors.LeftOut")  # the other ids are no features
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


# -- columns that a ranker must not learn from -----------------------------------------------------


@pytest.mark.parametrize("name", [name for names in LEAKS.values() for name in names])
def test_a_column_that_leaks_is_no_feature_and_a_warning_names_it(name: str) -> None:
    table = make_table(**{name.upper(): [3, 5, 8], "a": [1, 2, 3]}) if name not in ("qid", "label") else None
    if table is None:  # these are the parts themselves; a second such column is what leaks
        table = pa.table({"q": [1, 1, 2], "l": [0, 1, 0], name: [3, 5, 8], "a": [1, 2, 3]})
    parts: dict[str, Any] = NAMED if "qid" in table.column_names and "label" in table.column_names else {
        "qid": "q", "label": "l"
    }  # fmt: skip
    column = table.column_names[2]
    with pytest.warns(
        LeftOut, match=f"'{column}' .* is no feature: .* name it with keep= or features="
    ) as said:
        data = from_table(table, **parts, item=False, position=False)
    assert len(said) == 1
    assert data.feature_names == ("a",)
    assert from_table(table, **parts, item=False, keep=[column]).feature_names == (column, "a")
    assert from_table(table, **parts, item=False, features=[column]).feature_names == (column,)


@pytest.mark.parametrize(
    "name", ["past_clicks", "rating", "weight", "y", "page_rank", "brand_id", "hour", "click_rate"]
)
def test_an_honest_feature_is_read_without_a_word(name: str) -> None:
    table = make_table(**{name: [3, 5, 8], "a": [1, 2, 3]})
    assert from_table(table, **NAMED).feature_names == (name, "a")


def test_a_position_is_the_position_and_no_feature() -> None:
    table = make_table(position=[1, 2, 1], a=[1, 2, 3])
    with pytest.warns(Guess, match="guessed position='position'"):
        data = from_table(table, **NAMED)
    assert data.feature_names == ("a",)
    assert data.position.tolist() == [1, 2, 1]  # type: ignore[union-attr]
    named = from_table(table, **NAMED, position="position")
    assert (named.feature_names, named.position.tolist()) == (("a",), [1, 2, 1])  # type: ignore[union-attr]


@pytest.mark.parametrize("values", [[0, 1, 0], [1.5, 2.0, 1.0], [1, None, 2]])
def test_a_position_that_does_not_count_from_1_is_left_out_and_no_error(values: list[Any]) -> None:
    with pytest.warns(LeftOut, match=r"'position' \(where it was shown\) is no feature"):
        data = from_table(make_table(position=values, a=[1, 2, 3]), **NAMED)
    assert data.feature_names == ("a",)
    assert data.position is None
    with pytest.raises(BadInput, match="position must"):  # who names it is told what is wrong with it
        from_table(make_table(position=values), **NAMED, position="position")


def test_frames_of_every_kind_leave_out_what_leaks() -> None:
    import pandas as pd
    import polars as pl

    columns = {"qid": [1, 1], "label": [0, 1], "clicked": [0, 1], "bm25": [1.5, 2.5]}
    for build, frame in (
        (RankingData.from_pandas, pd.DataFrame(columns)),
        (RankingData.from_polars, pl.DataFrame(columns)),
        (RankingData.from_arrow, pa.table(columns)),
    ):
        with pytest.warns(LeftOut, match=r"'clicked' \(what people did\)"):
            assert build(frame, qid="qid", label="label").feature_names == ("bm25",)  # type: ignore[operator]


def test_a_feature_that_was_written_as_one_reads_back_as_one() -> None:
    data = RankingData.from_arrays([[1.0, 0.0]], [1], [1], feature_names=["position", "clicked"])
    assert from_table(data.to_arrow()).feature_names == ("position", "clicked")


def test_the_page_about_tables_lists_every_name_that_leaks() -> None:
    page = (Path(__file__).parents[3] / "docs/reading_tables.md").read_text()
    said = {*GUESSES["qid"], *GUESSES["item"]}  # as "the names under which a query or an item is looked for"
    names = [name for each in LEAKS.values() for name in each if name not in said]
    assert [name for name in names if f"`{name}`" not in page] == []
    assert all(f"| {reason}" in page for reason in LEAKS)
