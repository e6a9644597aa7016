"""Attention over the list: order and padding change nothing, and the list is really looked at."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import placings as pg
from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.rankers.assembly import build_network
from placings.rankers.networks import Attention, follow_groups, sort_lists
from placings.rankers.presets import settle
from placings.training.packing import Packed, PackedGroup, pack_lists
from placings.transforms import Raw

SIZES = [1, 2, 3, 5, 7, 30]
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
ROWS = int(OFFSETS[-1])


def make_rows() -> torch.Tensor:
    return torch.tensor(np.random.default_rng(0).normal(size=(ROWS, 4)), dtype=torch.float32)


def make_network(**settings: object) -> Attention:
    torch.manual_seed(0)
    chosen = {"network": "attention", "hidden": (8,), "width": 8, "heads": 2, "dropout": 0.0, **settings}
    network = build_network(settle("default", chosen), Raw().fit(make_rows().numpy()))
    assert isinstance(network, Attention)
    torch.nn.init.normal_(network.cross.weight)  # as if it had learned that the list matters
    return network


def pack(groups: tuple[PackedGroup, ...]) -> Packed:
    return replace(pack_lists(OFFSETS), groups=groups, keys=torch.arange(len(SIZES), dtype=torch.int32))


WHOLE = (PackedGroup(0, 6, 30),)
CUT = (PackedGroup(0, 2, 2), PackedGroup(2, 5, 7), PackedGroup(5, 6, 30))
WIDE = (PackedGroup(0, 3, 11), PackedGroup(3, 6, 64))


@pytest.mark.parametrize("training", [True, False])
def test_the_order_of_rows_changes_no_score(training: bool) -> None:
    network, X, packed = make_network(input_noise=0.0).train(training), make_rows(), pack(CUT)
    turned = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(OFFSETS)])
    with torch.no_grad():
        given = network(network.prepare(X[turned]), packed)
        expected = network(network.prepare(X), packed)[turned]
    np.testing.assert_allclose(given, expected, atol=1e-5)


@pytest.mark.parametrize("groups", [CUT, WIDE])
def test_padding_changes_no_score_and_no_gradient(groups: tuple[PackedGroup, ...]) -> None:
    found = []
    for each in (WHOLE, groups):
        network = make_network(dropout=0.2).train()
        scores = network(network.prepare(make_rows()), pack(each))
        scores.square().sum().backward()
        found.append([scores.detach(), *(p.grad for p in network.parameters())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-4)


def test_other_lists_of_the_batch_change_no_score() -> None:
    network, X = make_network().eval(), make_rows()
    with torch.no_grad():
        whole = network(X, pack_lists(OFFSETS))
        for start, stop in pairwise(OFFSETS):
            alone = network(X[start:stop], pack_lists(np.array([0, stop - start])))
            np.testing.assert_allclose(alone, whole[start:stop], atol=1e-5)


def test_a_score_depends_on_its_list_alone() -> None:
    network, X, packed = make_network().eval(), make_rows(), pack_lists(OFFSETS)
    moved = X.clone()
    moved[OFFSETS[4]] += 1.0
    with torch.no_grad():
        changed = (network(moved, packed) - network(X, packed)).abs() > 1e-6
    assert changed[OFFSETS[4] : OFFSETS[5]].all()
    assert not changed[: OFFSETS[4]].any()
    assert not changed[OFFSETS[5] :].any()


def test_rows_that_only_fill_a_shape_change_nothing() -> None:
    network, X, packed = make_network(dropout=0.3).train(), make_rows(), pack(WIDE)
    filled = replace(
        packed,
        owner=torch.cat([packed.owner, torch.zeros(9, dtype=torch.int64)]),
        live=torch.arange(ROWS + 9) < ROWS,
    )
    with torch.no_grad():
        given = network(torch.cat([X, X[:1].expand(9, -1)]), filled)[:ROWS]
        expected = network(X, packed)
    np.testing.assert_allclose(given, expected, atol=1e-5)


def test_no_shape_depends_on_a_value() -> None:
    network, X, packed = make_network().train(), make_rows(), pack(CUT)

    def run(rows: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return network(rows, replace(packed, sizes=sizes))

    captured = torch.compile(run, backend="eager", fullgraph=True)
    np.testing.assert_allclose(captured(X, packed.sizes).detach(), run(X, packed.sizes).detach(), atol=1e-5)


def test_lists_are_laid_out_where_they_came_from() -> None:
    values = torch.arange(ROWS)
    for layout in (follow_groups(pack(WIDE)), sort_lists(pack_lists(OFFSETS))):
        flat = torch.cat([values[rows].flatten() for rows in layout.rows])
        assert flat[layout.places].tolist() == values.tolist()
        assert sum(int(mask.sum()) for mask in layout.masks) == ROWS
    padded = sum(rows.numel() for rows in sort_lists(pack_lists(OFFSETS)).rows)
    assert padded < 2 * ROWS  # the long list does not make the short ones wide


def test_it_starts_as_the_plain_network() -> None:
    torch.manual_seed(0)
    network = build_network(
        settle("default", {"network": "attention", "hidden": (8,), "width": 8}),
        Raw().fit(make_rows().numpy()),
    ).eval()
    assert isinstance(network, Attention)
    with torch.no_grad():
        given = network(make_rows(), pack_lists(OFFSETS))
        plain = network.head(network.item(network.norm(make_rows()))).squeeze(-1)  # type: ignore[misc]
    np.testing.assert_allclose(given, plain, atol=1e-6)


def test_noise_is_standard_normal_times_its_size_and_follows_from_the_row() -> None:
    from placings.rankers.networks import RowNoise

    noise = RowNoise(0.5, 50).train()
    packed = pack_lists(np.arange(0, 4001, 40))
    packed = replace(packed, keys=torch.arange(100, dtype=torch.int32))
    drawn = noise(torch.zeros(4000, 50), packed).numpy() / 0.5
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 1.0) < 0.01
    assert abs((drawn**4).mean() - 3.0) < 0.1  # a normal's kurtosis
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.06
    half = replace(pack_lists(np.arange(0, 41, 40)), keys=packed.keys[7:8])
    few = 4 * np.finfo(np.float32).eps  # a logarithm and a cosine of fewer numbers at once
    np.testing.assert_allclose(noise(torch.zeros(40, 50), half) / 0.5, drawn[280:320], rtol=few, atol=few)
    assert not noise.eval()(torch.zeros(4000, 50), packed).any()


def make_relative(queries: int = 60, seed: int = 0) -> RankingData:
    """What counts is how far an item lies from the query's middle, which no row knows by itself."""
    rng = np.random.default_rng(seed)
    middle = np.repeat(rng.normal(size=queries) * 3.0, 8)
    apart = rng.normal(size=queries * 8)
    y = (np.abs(apart) < 0.4).astype(float)
    return RankingData.from_arrays((middle + apart)[:, None], y, np.repeat(np.arange(queries), 8))


def test_attention_learns_what_a_row_alone_cannot_know() -> None:
    train, test = make_relative(seed=0), make_relative(seed=1)
    found = {}
    for network in ("feedforward", "attention"):
        ranker = pg.NeuralRanker(
            transform="gauss", network=network, hidden=[32], width=32, dropout=0.0, steps=150, lr=0.02,
            random_state=0, input_noise=0.0,
        ).fit(train)  # fmt: skip
        found[network] = pg.evaluate(ranker, test, ["ndcg@10"])["ndcg@10"]
    assert found["attention"] > found["feedforward"] + 0.05


def test_settings_that_do_not_fit_are_told() -> None:
    data = make_relative(3)
    with pytest.raises(BadInput, match="width must be a multiple of heads. Got width=10 and heads=4"):
        pg.NeuralRanker(network="attention", width=10, heads=4, steps=1).fit(data)
    with pytest.raises(BadInput, match="sees the whole list, not groups. Got group_size=3"):
        pg.NeuralRanker(network="attention", group_size=3, steps=1).fit(data)
    with pytest.raises(BadInput, match="input_noise must be 0 or more"):
        pg.NeuralRanker(network="attention", input_noise=-1.0, steps=1).fit(data)
