"""Splits and folds: by query, seeded, by time, by group."""

from __future__ import annotations

import numpy as np
import pytest

from placings.core.errors import BadInput, PlacingsWarning, UnknownName
from placings.data.ranking import RankingData
from placings.data.splits import find_clusters


@pytest.fixture
def ten() -> RankingData:
    """Ten queries of two rows; query q happens at time 10 − q; sessions are pairs of queries."""
    qid = np.repeat(np.arange(10), 2)
    return RankingData.from_arrays(
        np.arange(20).reshape(20, 1),
        np.tile([0, 1], 10),
        qid,
        time=10 - qid,
        segments={"session": [f"s{q // 2}" for q in qid]},
    )


def parts_of(parts: tuple[RankingData, ...]) -> list[list[int]]:
    return [part.qids.tolist() for part in parts]


def test_a_split_shares_out_whole_queries_and_loses_none(ten: RankingData) -> None:
    parts = ten.split(0.6, 0.2, 0.2, random_state=0)
    assert [len(part) for part in parts] == [6, 2, 2]
    assert sorted(sum(parts_of(parts), [])) == list(range(10))
    assert all((part.sizes == 2).all() for part in parts)


def test_the_same_seed_gives_the_same_split_and_another_seed_another(ten: RankingData) -> None:
    assert parts_of(ten.split(0.5, 0.5, random_state=3)) == parts_of(ten.split(0.5, 0.5, random_state=3))
    assert parts_of(ten.split(0.5, 0.5, random_state=3)) != parts_of(ten.split(0.5, 0.5, random_state=4))


def test_by_time_the_earliest_queries_come_first(ten: RankingData) -> None:
    early, late = ten.split(0.7, 0.3, by="time")
    assert early.qids.tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert late.qids.tolist() == [0, 1, 2]


def test_a_group_is_never_torn_apart(ten: RankingData) -> None:
    for part in ten.split(0.6, 0.4, random_state=1, group="session"):
        assert all(2 * (q // 2) in part.qids and 2 * (q // 2) + 1 in part.qids for q in part.qids)
    by_query = ten.split(0.6, 0.4, random_state=1, group=np.arange(10) // 2)
    assert parts_of(by_query) == parts_of(ten.split(0.6, 0.4, random_state=1, group="session"))


def test_groups_in_time_order_start_with_their_first_query(ten: RankingData) -> None:
    early, late = ten.split(0.6, 0.4, by="time", group="session")
    assert late.qids.tolist() == [0, 1, 2, 3]
    assert early.qids.tolist() == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("shares", "options", "message"),
    [
        ((0.5, 0.4), {}, "shares must be above 0 and add up to 1"),
        ((), {}, "shares must be"),
        ((1.5, -0.5), {}, "shares must be"),
        ((0.99, 0.01), {}, "a part would be empty"),
        ((0.5, 0.5), {"by": "day"}, "by must be None .at random. or 'time'"),
        ((0.5, 0.5), {"by": "time", "random_state": 1}, "leave random_state out"),
        ((0.5, 0.5), {"group": "user"}, "no segment 'user' to group by. Known segments: 'session'"),
        ((0.5, 0.5), {"group": [1, 2, 3]}, "20 rows or 10 queries. Got 3"),
        ((0.5, 0.5), {"group": np.arange(20)}, "a query must belong to one group"),
    ],
)
def test_a_split_that_cannot_be_made_says_why(
    ten: RankingData, shares: tuple[float, ...], options: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        ten.split(*shares, **options)  # type: ignore[arg-type]


def test_splitting_by_time_needs_times(ten: RankingData) -> None:
    with pytest.raises(BadInput, match="needs the time of each row"):
        ten.replace(time=None).split(0.5, 0.5, by="time")


def test_folds_test_every_query_once(ten: RankingData) -> None:
    folds = [parts_of(fold) for fold in ten.folds(5, random_state=0)]
    assert sorted(sum((test for _, test in folds), [])) == list(range(10))
    assert all(sorted(train + test) == list(range(10)) for train, test in folds)


def test_folds_with_validation_rotate_as_letor_does(ten: RankingData) -> None:
    folds = [parts_of(fold) for fold in ten.folds(5, random_state=0, valid=True)]
    assert all(sorted(train + valid + test) == list(range(10)) for train, valid, test in folds)
    # what tests in one fold validates in the next, as S5 does in LETOR's folds 1 and 2
    assert all(folds[i + 1][1] == folds[i][2] for i in range(4))


def test_folds_by_time_never_learn_from_the_future(ten: RankingData) -> None:
    folds = list(ten.folds(3, by="time", valid=True))
    assert len(folds) == 3
    for train, valid, test in folds:
        assert train.time is not None
        assert valid.time is not None
        assert test.time is not None
        assert train.time.max() < valid.time.min() <= valid.time.max() < test.time.min()


def test_too_few_queries_or_folds_are_refused(ten: RankingData) -> None:
    with pytest.raises(BadInput, match="at least 2 parts. Got 1"):
        list(ten.folds(1))
    with pytest.raises(BadInput, match="too few for 11 parts"):
        list(ten.folds(11))


# -- which queries are alike -------------------------------------------------------------------------------


def make_log(queries: int, **segments: list[object]) -> RankingData:
    """Queries of two rows; segments are given by query."""
    spread = {name: np.repeat(np.array(values, dtype=object), 2) for name, values in segments.items()}
    qid = np.repeat(np.arange(queries), 2)
    return RankingData.from_arrays(np.zeros((2 * queries, 1)), np.zeros(2 * queries), qid, segments=spread)


def codes_of(data: RankingData, by: str | None = "auto") -> list[int] | None:
    found = find_clusters(data, by)
    return None if found is None else found.codes.tolist()


def test_queries_of_a_session_are_alike_and_users_win_over_sessions() -> None:
    sessions, users = ["a", "b", "a", "c"], ["u", "u", "u", "v"]
    assert codes_of(make_log(4)) is None
    assert codes_of(make_log(4, session_id=sessions)) == [0, 1, 0, 2]
    both = make_log(4, session_id=sessions, user_id=users)
    assert codes_of(both) == [0, 0, 0, 1]
    assert codes_of(both, "session_id") == [0, 1, 0, 2]
    assert codes_of(both, "query") is None
    assert codes_of(both, None) is None
    assert str(find_clusters(both)) == "2 users"


def test_who_is_not_known_stands_alone_or_with_the_session() -> None:
    """`unknown` is what FeatureSet.to_ranking writes for a missing id."""
    assert codes_of(make_log(4, session_id=[None, "unknown", "", float("nan")])) == [0, 1, 2, 3]
    users = ["u", None, None, None, "v", None]
    sessions = ["a", "a", "b", "b", "c", None]
    # the second search is in u's session; the third and fourth are of one session of nobody
    assert codes_of(make_log(6, session_id=sessions, user_id=users)) == [0, 0, 1, 1, 2, 3]


def test_a_session_of_two_users_joins_nobody_else_to_one_of_them() -> None:
    log = make_log(3, session_id=["1", "1", "1"], user_id=["u", "v", None])  # numbered anew for each user
    assert codes_of(log) == [0, 1, 2]


def test_a_session_that_differs_within_a_query_is_not_used_unless_named() -> None:
    data = make_log(2).replace(segments={"session_id": np.array(["a", "b", "c", "c"], dtype=object)})
    with pytest.warns(PlacingsWarning, match="cannot tell which queries are alike"):
        assert codes_of(data) is None
    with pytest.raises(BadInput, match="same in all rows of a query"):
        find_clusters(data, "session_id")
    with pytest.raises(UnknownName, match="Known: auto, query, session_id"):
        find_clusters(data, "sesion")


def test_too_few_sessions_for_the_parts_say_how_to_deal_out_queries() -> None:
    data = make_log(6, session_id=["a"] * 6)
    with pytest.raises(BadInput, match="1 groups are too few .* Pass group='query'"):
        data.split(0.5, 0.5, random_state=0, group="session_id")
    with pytest.raises(BadInput, match="too few for 3 parts. Pass group='query'"):
        list(data.folds(3, random_state=0, group="session_id"))
