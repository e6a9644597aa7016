"""Groupwise scoring: windows over a shuffled ring, against a slow and obvious reference."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import placings as pg
from placings.core.errors import BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.rankers.assembly import build_network
from placings.rankers.networks import Groupwise, hash_dense, hash_sparse, shuffle_lists
from placings.rankers.presets import settle
from placings.training.packing import Packed, pack_lists
from placings.training.sources import SparseRows
from placings.transforms import Log1p, Raw

SIZES = [5, 1, 2, 7, 3]
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def make_rows(seed: int = 0) -> np.ndarray:
    """Three features of items and, last, one of the query."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sum(SIZES), 4)).astype(np.float32)
    X[:, 3] = np.repeat(rng.normal(size=len(SIZES)), SIZES)
    return X


def make_network(size: int = 3, **settings: object) -> Groupwise:
    torch.manual_seed(0)
    transform = Raw().fit(make_rows())
    chosen = {"group_size": size, "hidden": (8,), "dropout": 0.0, **settings}
    network = build_network(settle("default", chosen), transform, ["f4"])
    assert isinstance(network, Groupwise)
    return network


def score(network: Groupwise, X: np.ndarray, packed: Packed) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(network(network.prepare(torch.tensor(X)), packed).numpy())


def score_slowly(network: Groupwise, X: np.ndarray, order: np.ndarray) -> np.ndarray:
    """One list, in one order: each window through the layers by itself, scores collected and averaged."""
    m, n = network.size, len(X)
    got: list[list[float]] = [[] for _ in range(n)]
    for first in range(n):
        members = [order[(first + step) % n] for step in range(m)]
        window = np.concatenate([*(X[member, :3] for member in members), X[members[0], 3:]])
        with torch.no_grad():
            scores = network.layers(torch.tensor(window)[None])[0].tolist()
        for member, value in zip(members, scores, strict=True):
            got[member].append(value)
    assert all(len(values) == m for values in got)
    return np.array([np.mean(values) for values in got])


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_an_item_has_the_mean_of_the_scores_of_its_windows(size: int) -> None:
    network, X, packed = make_network(size, network="groupwise").eval(), make_rows(), pack_lists(OFFSETS)
    names = hash_dense(torch.tensor(X))
    keys = torch.arange(len(SIZES), dtype=torch.int32)
    order = shuffle_lists(names, keys, packed).numpy()
    with torch.no_grad():
        given = network._score(torch.tensor(X), names, keys, packed).numpy()
    for start, stop in pairwise(OFFSETS):
        expected = score_slowly(network, X[start:stop], order[start:stop] - start)
        np.testing.assert_allclose(given[start:stop], expected, atol=1e-5)


def test_the_shuffle_stays_within_lists_and_follows_from_the_key() -> None:
    packed, names = pack_lists(OFFSETS), hash_dense(torch.tensor(make_rows()))
    orders = [
        shuffle_lists(names, torch.full((len(SIZES),), key, dtype=torch.int32), packed).numpy()
        for key in range(200)
    ]
    for order in orders:
        for start, stop in pairwise(OFFSETS):
            assert sorted(order[start:stop]) == list(range(start, stop))
    first = np.bincount([order[0] for order in orders], minlength=5)
    assert first.min() > 20  # each of five rows comes first about 40 times in 200
    again = shuffle_lists(names, torch.full((len(SIZES),), 7, dtype=torch.int32), packed).numpy()
    np.testing.assert_array_equal(again, orders[7])


@pytest.mark.parametrize("training", [True, False])
def test_the_order_of_rows_changes_no_score(training: bool) -> None:
    network, X = make_network(batch_norm=False).train(training), make_rows()
    packed = replace(pack_lists(OFFSETS), keys=torch.arange(5, dtype=torch.int32))
    turned = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(OFFSETS)])
    np.testing.assert_allclose(
        score(network, X[turned], packed), score(network, X, packed)[turned], atol=1e-6
    )


def test_other_lists_of_the_batch_change_no_score() -> None:
    network, X = make_network().eval(), make_rows()
    whole = score(network, X, pack_lists(OFFSETS))
    for start, stop in pairwise(OFFSETS):
        alone = score(network, X[start:stop], pack_lists(np.array([0, stop - start])))
        np.testing.assert_allclose(alone, whole[start:stop], atol=1e-6)


def test_rows_that_only_fill_a_shape_change_nothing() -> None:
    network, X = make_network(dropout=0.3).train(), make_rows()
    packed = replace(pack_lists(OFFSETS), keys=torch.arange(5, dtype=torch.int32))
    filled = replace(
        packed,
        owner=torch.cat([packed.owner, torch.zeros(6, dtype=torch.int64)]),
        live=torch.arange(len(X) + 6) < len(X),
    )
    more = np.concatenate([X, np.repeat(X[:1], 6, axis=0)])
    given = score(network, more, filled)[: len(X)]
    np.testing.assert_allclose(given, score(network, X, packed), atol=1e-5)


def test_no_shape_depends_on_a_value() -> None:
    network, X = make_network(dropout=0.0).train(), make_rows()
    packed = replace(pack_lists(OFFSETS), keys=torch.arange(5, dtype=torch.int32))
    rows = network.prepare(torch.tensor(X))

    def run(rows: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return network(rows, replace(packed, sizes=sizes))

    captured = torch.compile(run, backend="eager", fullgraph=True)
    np.testing.assert_allclose(
        captured(rows, packed.sizes).detach(), run(rows, packed.sizes).detach(), atol=1e-6
    )


def test_the_context_is_seen_once_and_moves_every_score() -> None:
    network, X, packed = make_network(size=3).eval(), make_rows(), pack_lists(OFFSETS)
    first = next(layer for layer in network.layers.layers if isinstance(layer, torch.nn.Linear))
    assert first.in_features == 3 * 3 + 1
    moved = X.copy()
    moved[OFFSETS[3] : OFFSETS[4], 3] += 1.0
    changed = score(network, moved, packed) != score(network, X, packed)
    assert changed[OFFSETS[3] : OFFSETS[4]].all()
    assert not changed[: OFFSETS[3]].any()


def test_an_indicator_goes_with_its_feature_into_the_context() -> None:
    X = make_rows()
    X[:5, 3] = np.nan
    X[2, 0] = np.nan
    transform = Log1p(indicator=True).fit(X)
    network = build_network(settle("default", {"group_size": 2}), transform, ["f4"])
    assert isinstance(network, Groupwise)
    assert network.item.tolist() == [0, 1, 2, 4]  # f1 f2 f3 f1__missing
    assert network.shared.tolist() == [3, 5]  # f4 f4__missing


def test_a_name_follows_from_the_numbers_whether_they_come_dense_or_sparse() -> None:
    from scipy.sparse import csr_array

    X = np.array([[0, 1.5, 0], [2, 0, 0], [0, 0, 0], [1.5, 0, 0], [0, 1.5, 0]], dtype=np.float32)
    dense = hash_dense(torch.tensor(X)).tolist()
    assert dense[0] == dense[4]
    assert len(set(dense)) == 4
    minus = X.copy()
    minus[minus == 0] = -0.0
    assert hash_dense(torch.tensor(minus)).tolist() == dense
    sparse = hash_sparse(SparseRows.of(csr_array(X), torch.device("cpu"))).tolist()
    assert sparse[0] == sparse[4]
    assert len(set(sparse)) == 4


def make_relative(queries: int = 60, seed: int = 0) -> RankingData:
    """What counts is how far an item lies from the query's middle, which no row knows by itself."""
    rng = np.random.default_rng(seed)
    middle = np.repeat(rng.normal(size=queries) * 3.0, 8)
    apart = rng.normal(size=queries * 8)
    y = (np.abs(apart) < 0.4).astype(float)
    return RankingData.from_arrays((middle + apart)[:, None], y, np.repeat(np.arange(queries), 8))


def test_groups_learn_what_a_row_alone_cannot_know() -> None:
    train, test = make_relative(seed=0), make_relative(seed=1)
    found = {}
    for size in (1, 6):
        ranker = pg.NeuralRanker(
            transform="gauss", group_size=size, hidden=[48], dropout=0.0, steps=200, lr=0.02, random_state=0
        ).fit(train)
        found[size] = pg.evaluate(ranker, test, ["ndcg@10"])["ndcg@10"]
    assert found[6] > found[1] + 0.05


def test_context_that_cannot_be_is_told() -> None:
    X, y, qid = make_rows(), np.arange(sum(SIZES)) % 2, np.repeat(np.arange(5), SIZES)
    with pytest.raises(UnknownName, match="no feature 'f9'"):
        pg.NeuralRanker(group_size=2, context=["f9"], steps=1).fit(X, y, qid=qid)
    with pytest.raises(BadInput, match="'f1' differs between the rows of query 0"):
        pg.NeuralRanker(group_size=2, context=["f1"], steps=1).fit(X, y, qid=qid)
    with pytest.raises(BadInput, match="every feature is named in context"):
        pg.NeuralRanker(group_size=2, context=["f1"], steps=1).fit(X[:, 3:], y, qid=qid)
    with pytest.raises(BadInput, match="context must list the names"):
        pg.NeuralRanker(group_size=2, context="f4", steps=1).fit(X, y, qid=qid)
