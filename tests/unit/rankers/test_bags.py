"""Wide sparse rows: a bag of vectors, sparse gradients, and a ranker that learns from 2^20 columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import placings as pg
from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.rankers.networks import Bag, pass_sparse
from placings.rankers.neural import WIDEST_DENSE, is_wide
from placings.training.optimizers import LazyAdamW, list_gradients, make_optimizer
from placings.training.plans import TrainingPlan
from placings.training.sources import SparseRows
from placings.transforms import Log1p, make_transform

COLUMNS = 2**20


def make_text(queries: int = 60, items: int = 10, seed: int = 0, columns: int = COLUMNS) -> RankingData:
    """Each item has 12 words of 3,000, hashed; 30 of them are good, and the label counts those."""
    rng = np.random.default_rng(seed)
    hashed = np.random.default_rng(99).choice(columns, size=3000, replace=False)
    rows = queries * items
    words = rng.integers(0, 3000, size=(rows, 12))
    words[:, :2] = rng.integers(0, 60, size=(rows, 2))  # one in two of these is good
    y = (words[:, :2] < 30).sum(axis=1)
    counts = csr_array(
        (np.ones(rows * 12, dtype=np.float32), (np.repeat(np.arange(rows), 12), hashed[words].ravel())),
        shape=(rows, columns),
    )
    counts.sum_duplicates()
    return RankingData.from_arrays(counts, y, np.repeat(np.arange(queries), items))


@pytest.fixture(scope="module")
def text() -> RankingData:
    return make_text()


@pytest.fixture(scope="module")
def fitted(text: RankingData) -> pg.NeuralRanker:
    return pg.NeuralRanker(
        embedding=8, hidden=[16], members=1, dropout=0.1, steps=200, batch=32, lr=0.02, holdout=0.0,
        random_state=0,
    ).fit(text)  # fmt: skip


def test_hashed_text_of_a_million_columns_is_learned(fitted: pg.NeuralRanker) -> None:
    test = make_text(queries=30, seed=1)
    assert fitted.bag_
    assert pg.evaluate(fitted, test, ["ndcg@10"])["ndcg@10"] > 0.9
    assert isinstance(fitted.transform_, Log1p)  # what "mixture" stands for where zeros must stay zeros
    assert fitted.network_.transform.vectors.weight.shape == (COLUMNS, 8)


def test_a_word_never_seen_says_nothing(fitted: pg.NeuralRanker, text: RankingData) -> None:
    seen = np.zeros(COLUMNS, dtype=bool)
    seen[text.X.indices] = True
    vectors = fitted.network_.transform.vectors.weight.detach().numpy()
    assert not vectors[~seen].any()
    assert vectors[seen].any(axis=1).all()
    rows = text.X[:5].tolil()
    rows[:, np.flatnonzero(~seen)[:3]] = 7.0
    np.testing.assert_allclose(fitted.predict(csr_array(rows)), fitted.predict(text.X[:5]), atol=1e-6)


@pytest.mark.parametrize("columns", [5000, pytest.param(COLUMNS, marks=pytest.mark.slow)])
def test_a_bag_is_saved_and_loads_to_equal_scores(columns: int, tmp_path: Path) -> None:
    data = make_text(queries=10, columns=columns)
    ranker = pg.NeuralRanker(embedding=8, hidden=[4], steps=10, random_state=0).fit(data)
    ranker.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict(data), ranker.predict(data))


def test_dense_rows_are_scored_as_sparse_ones(fitted: pg.NeuralRanker, text: RankingData) -> None:
    few = text.X[:4]
    np.testing.assert_allclose(fitted.predict(few.toarray()), fitted.predict(few), atol=1e-6)


def test_without_hidden_layers_a_bag_is_a_linear_ranker() -> None:
    text = make_text(queries=20, columns=5000)
    ranker = pg.NeuralRanker(hidden=(), transform="raw", steps=30, lr=0.05, random_state=0).fit(text)
    assert ranker.network_.transform.vectors.weight.shape == (5000, 1)
    one, other, both = text.X[:1], text.X[1:2], text.X[:1] + text.X[1:2]
    nothing = csr_array((1, 5000), dtype=np.float32)
    f = {name: ranker.predict(X)[0] for name, X in [("1", one), ("2", other), ("12", both), ("0", nothing)]}
    assert f["12"] - f["0"] == pytest.approx(f["1"] + f["2"] - 2 * f["0"], abs=1e-4)


@pytest.mark.parametrize("settings", [{"group_size": 3}, {"network": "attention", "width": 8, "heads": 2}])
def test_networks_that_see_lists_take_bags_too(settings: dict[str, object]) -> None:
    data = make_text(queries=20, columns=5000)
    ranker = pg.NeuralRanker(embedding=4, hidden=[8], steps=20, random_state=0, **settings).fit(data)  # type: ignore[arg-type]
    assert ranker.bag_
    order = np.random.default_rng(0).permutation(data.n_rows)
    given = ranker.predict(data.X[order], qid=np.asarray(data.qid)[order])
    np.testing.assert_allclose(given, ranker.predict(data)[order], atol=1e-5)
    with pytest.raises(BadInput, match="context features are not for sparse rows this wide"):
        pg.NeuralRanker(context=["f1"], steps=1, **settings).fit(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("optimizer", ["adamw", "adagrad", "sgd"])
def test_a_step_moves_only_the_vectors_of_the_batch(optimizer: str) -> None:
    plan = TrainingPlan(
        steps=1, batch=1, list_size=None, optimizer=optimizer, lr=0.1, mixture_lr=None, weight_decay=0.1,
        check_every=1, patience=1, seed=0, optimizer_momentum=0.9,
    )  # fmt: skip
    bag = Bag(20, 3)
    before = bag.vectors.weight.detach().clone()
    chosen = make_optimizer(bag, plan)
    rows = SparseRows(torch.tensor([2, 5, 2]), torch.tensor([1.0, 2.0, 1.0]), torch.tensor([0, 2]))
    for _ in range(2):
        chosen.zero_grad(set_to_none=True)
        bag.finish(rows).square().sum().backward()
        chosen.step()
    moved = (bag.vectors.weight.detach() != before).any(dim=1)
    assert moved.nonzero().flatten().tolist() == [2, 5]


def test_lazy_adamw_is_sparse_adam_on_bags_and_adamw_elsewhere() -> None:
    start = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    dense, plain = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    mine = LazyAdamW([{"params": [dense]}, {"params": [ours], "weight_decay": 0.0}], lr=0.1, weight_decay=0.1)
    sparse = torch.optim.SparseAdam([theirs], lr=0.1)
    whole = torch.optim.AdamW([plain], lr=0.1, weight_decay=0.1)
    for step in range(3):
        places = torch.tensor([[0, 3, 0]]) + step  # a row may come twice
        values = torch.randn(3, 2, generator=torch.Generator().manual_seed(step))
        ours.grad, theirs.grad = (
            torch.sparse_coo_tensor(places, values, (6, 2), check_invariants=True) for _ in range(2)
        )
        dense.grad, plain.grad = start.clone(), start.clone()
        for each in (mine, sparse, whole):
            each.step()
    np.testing.assert_allclose(ours.detach(), theirs.detach(), atol=1e-6)
    np.testing.assert_allclose(dense.detach(), plain.detach(), atol=1e-6)


def test_gradients_of_a_bag_are_listed_once_a_row_and_can_be_clipped() -> None:
    bag = Bag(10, 2)
    rows = SparseRows(torch.tensor([2, 2, 7]), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1]))
    bag.finish(rows).sum().backward()
    (values,) = list_gradients(bag)
    np.testing.assert_allclose(values, [[3.0, 3.0], [3.0, 3.0]])
    values.mul_(0.5)
    assert bag.vectors.weight.grad is not None
    np.testing.assert_allclose(bag.vectors.weight.grad.to_dense()[[2, 7]], np.full((2, 2), 1.5))


@pytest.mark.parametrize("optimizer", ["adamw", "adagrad"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path: Path, optimizer: str) -> None:
    data = make_text(queries=20, columns=5000)
    settings = {
        "embedding": 4,
        "hidden": [8],
        "steps": 30,
        "optimizer": optimizer,
        "random_state": 0,
        "clip": 1.0,
    }
    whole = pg.NeuralRanker(**settings).fit(data)  # type: ignore[arg-type]

    class Stop(Exception):
        pass

    def stop_at_20(step: int) -> None:
        if step > 20:
            raise Stop

    import placings.training.loop as loop

    plain = loop.train
    path = tmp_path / "run.safetensors"
    stopped = pg.NeuralRanker(**settings, checkpoint=path, checkpoint_every=10)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "train", lambda *a, **k: plain(*a, **{**k, "on_step": stop_at_20}))
        with pytest.raises(Stop):
            stopped.fit(data)
    assert path.exists()
    np.testing.assert_array_equal(stopped.fit(data).predict(data), whole.predict(data))


def test_a_transform_that_makes_something_of_zero_is_refused() -> None:
    text = make_text(queries=5, columns=5000)
    few = text.X[:20].copy()
    few.data -= 3.0
    scaled = make_transform("minmax").fit(few)
    with pytest.raises(BadInput, match="MinMax.* does not keep zeros at zero.*transform='log1p' or 'raw'"):
        pass_sparse(scaled, few)
    with pytest.raises(BadInput, match="does not keep zeros at zero"):
        pg.NeuralRanker(transform="gauss", steps=1).fit(text)


def test_contributions_of_a_bag_are_refused(fitted: pg.NeuralRanker, text: RankingData) -> None:
    with pytest.raises(BadInput, match="one number for each column; rows this wide have too many"):
        fitted.contributions(text)


def test_narrow_sparse_rows_are_made_dense(text: RankingData) -> None:
    data = make_text(queries=20, columns=WIDEST_DENSE)
    assert not is_wide(data.X)
    assert not is_wide(np.zeros((2, WIDEST_DENSE + 1), dtype=np.float32))
    assert is_wide(text.X)
    narrow = data.select(list(data.feature_names[:40]))
    settings = {"hidden": [4], "steps": 5, "random_state": 0}
    sparse = pg.NeuralRanker(**settings).fit(narrow, valid=narrow)  # type: ignore[arg-type]
    whole = narrow.replace(X=narrow.X.toarray())
    dense = pg.NeuralRanker(**settings).fit(whole, valid=whole)  # type: ignore[arg-type]
    np.testing.assert_allclose(sparse.predict(narrow), dense.predict(narrow.X.toarray()), atol=1e-6)


def test_a_missing_value_of_a_sparse_row_is_filled_by_the_policy() -> None:
    X = csr_array(np.array([[np.nan, 1.0], [2.0, 0.0]], dtype=np.float32))
    spread = SparseRows.of(X, torch.device("cpu")).spread(2)
    np.testing.assert_array_equal(spread, X.toarray())
    filled = pass_sparse(Log1p(missing=1.0).fit(X), X)
    assert filled.toarray()[0, 0] == pytest.approx(np.log(2.0))
