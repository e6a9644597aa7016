"""Where rows come from changes no bit: resident, streamed, memory-mapped or sparse."""

from __future__ import annotations

from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from small_runs import assert_same_state, copy_state, make_data, make_network, make_plan

import placings as pg
from placings.data.cache import FORMAT, load_arrays, save_arrays
from placings.data.ranking import RankingData
from placings.losses import find_loss
from placings.training import sources
from placings.training.batches import BatchSampler
from placings.training.loop import train
from placings.training.sources import (
    SparseRows,
    TrainingSource,
    cut_queries,
    prepare_all,
    send_rows,
    weigh_lists,
)
from placings.transforms import Log1p

CPU = torch.device("cpu")


def run(data: RankingData, transform: Any, *, resident: bool | None, **settings: Any) -> dict[str, Any]:
    model = make_network(make_data(), transform, **settings)
    history = train(
        model, find_loss("softmax", draws=2), data, make_plan(steps=6, list_size=7), resident=resident
    )
    return {"loss": np.array(history.loss), **copy_state(model)}


@pytest.mark.parametrize(
    "transform", ["gauss", "cdf", "quantile_normal", "mixture", "query_minmax", Log1p(indicator=True)]
)
def test_streamed_rows_train_to_the_same_bits_as_resident_ones(transform: Any) -> None:
    data = make_data()
    X = np.array(data.X)
    X[::7, 1] = np.nan
    data = data.replace(X=X)
    expected = run(data, transform, resident=True, dropout=0.3)
    assert_same_state(expected, run(data, transform, resident=False, dropout=0.3))


@pytest.mark.parametrize(
    "settings", [{"network": "attention", "width": 8}, {"group_size": 3}, {"members": 3}]
)
def test_every_network_may_be_streamed(settings: dict[str, Any]) -> None:
    data = make_data()
    expected = run(data, "mixture", resident=True, **settings)
    assert_same_state(expected, run(data, "mixture", resident=False, **settings))


def test_a_memory_mapped_file_trains_to_the_same_bits(tmp_path: Path) -> None:
    read = make_data()
    mapped = load_arrays(tmp_path, {"format": FORMAT, **save_arrays(tmp_path, read)})
    base: Any = mapped.X
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap)
    settings = {"hidden": [8], "members": 2, "steps": 8, "random_state": 0}
    one, other = (pg.NeuralRanker(**settings).fit(each) for each in (read, mapped))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.predict(read), other.predict(mapped))
    expected = run(read, "mixture", resident=True)
    assert_same_state(expected, run(mapped, "mixture", resident=False))


def test_sparse_rows_train_to_the_bits_of_dense_ones() -> None:
    data = make_data()
    X = np.where(np.random.default_rng(0).random(data.X.shape) < 0.5, 0.0, np.asarray(data.X))
    dense, sparse = data.replace(X=X.astype(np.float32)), data.replace(X=csr_array(X.astype(np.float32)))
    expected = run(dense, "log1p", resident=True)
    assert_same_state(expected, run(sparse, "log1p", resident=True))  # CSR streams, whatever is asked
    assert_same_state(expected, run(sparse, "log1p", resident=None))


def test_rows_are_kept_if_they_fit_and_streamed_if_not(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data()
    model = make_network(data, "mixture")  # four bases of four features, 4 bytes each
    size = data.n_rows * 16 * 4
    for free, kept in ((2.1 * size, True), (1.9 * size, False)):  # half of what is free
        monkeypatch.setattr(sources, "_free_memory", lambda device, free=free: free)
        assert (TrainingSource(model, data, CPU).prepared is not None) == kept
    assert TrainingSource(model, data, CPU, resident=True).prepared is not None
    monkeypatch.undo()
    assert sources._free_memory(CPU) > 1e6
    assert TrainingSource(model, data, CPU, resident=False).prepared is None


def test_rows_prepared_in_pieces_are_rows_prepared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data()
    for transform in ("mixture", "query_minmax"):
        model = make_network(data, transform)
        with torch.no_grad():
            whole = model.prepare(
                send_rows(np.asarray(data.X), CPU), torch.from_numpy(np.array(data.offsets))
            )
            monkeypatch.setattr(sources, "ROWS_AT_ONCE", 20)
            pieces = prepare_all(model, data, CPU)
            torch.testing.assert_close(pieces, whole, rtol=1e-6, atol=1e-6)  # as transforms are promised
        monkeypatch.undo()


def test_a_list_cut_short_is_scaled_as_the_whole_list_is() -> None:
    data = make_data()
    model = make_network(data, "query_minmax")
    batch = BatchSampler(data.offsets, 5, 3, 0).draw(2)
    index = torch.from_numpy(batch.rows)
    kept, streamed = (TrainingSource(model, data, CPU, resident=r).take(batch, index) for r in (True, False))
    assert streamed.tolist() == kept.tolist()
    alone = model.prepare(send_rows(np.asarray(data.X)[batch.rows], CPU))
    assert alone.tolist() != kept.tolist()


def test_blocks_hold_whole_queries_and_miss_none() -> None:
    offsets = np.array([0, 3, 3, 10, 12, 40, 41])
    for rows in (1, 5, 12, 100):
        blocks = list(cut_queries(offsets, rows))
        assert blocks[0][0] == 0
        assert blocks[-1][1] == 41
        assert [b[0] for b in blocks[1:]] == [b[1] for b in blocks[:-1]]
        inside = np.concatenate([[0], *(start + borders[1:] for start, _, borders in blocks)])
        assert inside.tolist() == offsets.tolist()
        assert all(stop - start <= rows or len(borders) == 2 for start, stop, borders in blocks)


def test_weights_are_of_queries_unless_they_differ_within_one() -> None:
    data = RankingData.from_arrays(np.eye(5), np.ones(5), [1, 1, 1, 2, 2], weight=[3.0, 3.0, 3.0, 0.5, 0.5])
    weights = weigh_lists(data, CPU)
    assert weights is not None
    assert weights.tolist() == [3.0, 0.5]
    items = weigh_lists(data.replace(weight=[3.0, 3.0, 3.0, 0.5, 1.0]), CPU)
    assert items is not None
    assert items.tolist() == [3.0, 3.0, 3.0, 0.5, 1.0]
    assert weigh_lists(data.replace(weight=None), CPU) is None


def test_sparse_rows_know_their_owners_and_spread() -> None:
    X = csr_array(np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3], [0, 0, 0]], dtype=np.float32))
    rows = SparseRows.of(X, CPU)
    assert len(rows) == 4
    assert rows.find_owners().tolist() == [0, 2, 2]
    assert rows.spread(3).tolist() == X.toarray().tolist()
