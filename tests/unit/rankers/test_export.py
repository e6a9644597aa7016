"""ONNX export: the file scores as the ranker does, says what it is, and comes whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
import torch
from scipy.sparse import csr_array

import placings as pg
from placings.core.arrays import Floats32
from placings.core.errors import BadFile, BadInput, MissingExtra, PlacingsError
from placings.data.ranking import RankingData
from placings.rankers import export
from placings.rankers.export import ALONE, TOGETHER, Exported, export_ranker, run_file, score_exactly
from placings.rankers.neural import NeuralRanker
from placings.training.loop import score_rows
from placings.transforms import Cdf, Clip, Log1p, MinMax, Mixture, PerFeature, QuantileNormal
from placings.transforms.layers import log_from_one

NAN, INF = float("nan"), float("inf")
ODD = np.array(
    [NAN, 0.0, -0.0, 1.0, -1.0, 1e-42, 1e-30, -1e-30, 1e-6, 1e6, -1e6, 1e30, -1e30, 3e38, -3e38, INF, -INF],
    dtype=np.float32,
)
NAMES = ("tail", "tiny", "grade", "same", "below", "normal", "empty")


def make_data() -> RankingData:
    """Seven kinds of features, some values of each missing, of the last all."""
    rng = np.random.default_rng(0)
    columns = [
        np.exp(3 * rng.normal(size=300)),
        1e-6 * rng.random(300),
        rng.integers(0, 4, 300),
        np.full(300, 5.0),
        -1e4 * rng.random(300),
        rng.normal(size=300),
    ]
    X = np.column_stack([*columns, np.zeros(300)]).astype(np.float32)
    y = np.clip(np.round(X[:, 5] + 1), 0, 3)
    X[rng.random(X.shape) < 0.05] = NAN
    X[:, 6] = NAN
    return RankingData.from_arrays(X, y, np.repeat(np.arange(30), 10), feature_names=NAMES)


DATA = make_data()
EVERY = PerFeature(
    [
        ("cdf", ["tail"]),
        (Log1p(), ["tiny"]),
        ("quantile_normal", ["grade"]),
        ("minmax", ["same"]),
        (Clip(0.1, 0.9), ["below"]),
        ("raw", ["empty"]),
    ],
    default="gauss",
    missing={"tail": "mean", "tiny": 0.0},
    indicator=True,
)


def make_usual(X: Floats32) -> Floats32:
    """Rows like those of the training: shuffled, scaled, and on, just off and between the values of each."""
    rng = np.random.default_rng(1)
    rows = [rng.permuted(X, axis=0), X * np.float32(1.3)]
    middle = np.array([np.median(c[~np.isnan(c)]) if (c == c).any() else 0.0 for c in X.T], dtype=np.float32)
    for place, column in enumerate(X.T):
        seen = np.unique(column[~np.isnan(column)])[:40]
        if len(seen):
            ends = np.array([2 * seen[0] - seen[-1], 2 * seen[-1] - seen[0], NAN], dtype=np.float32)
            near = [np.nextafter(seen, np.float32(end)) for end in (-INF, INF)]
            values = np.concatenate([seen, *near, (seen[1:] + seen[:-1]) / 2, ends])
            block = np.repeat(middle[None], len(values), axis=0)
            block[:, place] = values
            rows.append(block)
    return np.concatenate(rows)


def make_odd(X: Floats32) -> Floats32:
    """One odd value in each feature at a time, then in all."""
    blocks = [np.repeat(ODD[:, None], X.shape[1], axis=1)]
    for place in range(X.shape[1]):
        block = np.repeat(X[:1], len(ODD), axis=0)
        block[:, place] = ODD
        blocks.append(block)
    return np.concatenate(blocks)


USUAL, ODDS = make_usual(np.asarray(DATA.X)), make_odd(np.asarray(DATA.X))


def fit(**settings: Any) -> NeuralRanker:
    chosen = {"hidden": (12,), "steps": 15, "batch": 8, "random_state": 0, **settings}
    return NeuralRanker(**chosen).fit(DATA)


def check_scores(ranker: NeuralRanker, path: Path) -> None:
    """Equal to 1e-5 on usual rows; on odd ones too, but for what float32 rounding explains."""
    usual, odd = run_file(path, [USUAL, ODDS])
    np.testing.assert_allclose(usual, score_rows(ranker.network_, USUAL), rtol=1e-5, atol=1e-5)
    ours = score_rows(ranker.network_, ODDS)
    exact = score_exactly(ranker, ODDS)
    # near float32's end the order of a sum decides whether one of its parts has no room any more
    fits = ~(np.abs(exact) > 1e30)
    told = np.isfinite(ours) & (fits | np.isfinite(odd))
    np.testing.assert_array_equal(np.isnan(odd)[fits], np.isnan(ours)[fits])
    np.testing.assert_array_equal(odd[fits & np.isinf(ours)], ours[fits & np.isinf(ours)])
    assert told.mean() > 0.5
    size = 1.0 + np.abs(ours[told])
    rounding = np.abs(exact[told] - ours[told]) / size
    assert (np.abs(odd[told] - ours[told]) / size <= 1e-5 + 4 * rounding.max()).all()


@pytest.fixture(scope="module")
def ranker() -> NeuralRanker:
    return fit(transform=Mixture(("gauss", "cdf", "log1p"), normalise=True, indicator=True), steps=60)


@pytest.fixture(scope="module")
def made(ranker: NeuralRanker, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export_ranker(ranker, tmp_path_factory.mktemp("made") / "ranker.onnx", digest="ab" * 32)


@pytest.fixture
def quick() -> Iterator[None]:
    """The older exporter, which takes a tenth of the time, where it is not the exporter that is tested."""
    with mock.patch.object(export, "MODERN", (99, 0)):
        yield


# -- the scores ------------------------------------------------------------------------------------------


def test_the_default_mixture_scores_the_same_with_indicators(ranker: NeuralRanker, made: Exported) -> None:
    check_scores(ranker, made.path)
    assert made.difference < 1e-5
    assert made.lists == ALONE


@pytest.mark.slow
def test_every_single_transform_scores_the_same_each_on_its_feature(tmp_path: Path) -> None:
    ranker = fit(transform=EVERY)
    check_scores(ranker, export_ranker(ranker, tmp_path / "ranker.onnx").path)


SINGLE: dict[str, Any] = {
    **{name: {"transform": name} for name in ("raw", "gauss", "cdf", "log1p")},
    **{name: {"transform": name} for name in ("quantile_normal", "minmax", "clip")},
    "few knots": {"transform": Cdf(max_knots=7, indicator="all")},
    "few normal knots": {"transform": QuantileNormal(max_knots=8, missing="zero")},
    "minmax within": {"transform": MinMax(clip=True, indicator=True)},
    "the paper's": {"preset": "zhuang2020", "hidden": (32, 16)},
    "the paper's start": {"transform": Mixture(start="paper", embedding=None, indicator="all")},
    "vectors": {
        "transform": Mixture(("gauss", "cdf", "log1p"), groups={"v": ["tail", "below"]}, normalise=True)
    },
    "the default": {},
    "linear": {"hidden": ()},
    "tanh": {"hidden": (8, 4), "activation": "tanh", "batch_norm": False},
    "sigmoid": {"activation": "sigmoid", "norm_input": False, "dropout": 0.5},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE)
def test_a_transform_or_network_scores_the_same_by_itself(name: str, tmp_path: Path) -> None:
    ranker = fit(**SINGLE[name])
    check_scores(ranker, export_ranker(ranker, tmp_path / "ranker.onnx").path)


@pytest.mark.parametrize("rows", [0, 1, 2, 1000])
def test_any_number_of_rows_is_taken(made: Exported, ranker: NeuralRanker, rows: int) -> None:
    X = np.resize(np.asarray(DATA.X), (rows, 7))
    (scores,) = run_file(made.path, [X])
    np.testing.assert_allclose(scores, score_rows(ranker.network_, X), rtol=1e-5, atol=1e-5)


def test_rows_of_one_query_are_scaled_together_one_call_a_query(tmp_path: Path) -> None:
    ranker = fit(transform="query_minmax")
    made = export_ranker(ranker, tmp_path / "ranker.onnx")
    assert made.lists == TOGETHER
    calls = [np.asarray(DATA.X[start : start + 10]) for start in range(0, 300, 10)]
    scores = np.concatenate(run_file(made.path, [*calls, calls[0][:1]]))
    np.testing.assert_allclose(scores[:300], ranker.predict(DATA), rtol=1e-5, atol=1e-5)
    assert np.isfinite(scores).all()


@pytest.mark.slow
def test_attention_sees_all_rows_of_a_call_as_one_list(tmp_path: Path) -> None:
    ranker = fit(network="attention", steps=40, lr=0.01, width=8, heads=2)
    made = export_ranker(ranker, tmp_path / "ranker.onnx")
    assert made.lists == TOGETHER
    calls = [np.asarray(DATA.X[start : start + 10]) for start in range(0, 300, 10)]
    scores = np.concatenate(run_file(made.path, calls))
    np.testing.assert_allclose(scores, ranker.predict(DATA), rtol=1e-5, atol=1e-5)
    alone, together = run_file(made.path, [calls[0][:1], calls[0]])
    assert abs(alone[0] - together[0]) > 1e-4  # the list matters
    assert np.isfinite(alone).all()


def test_a_logarithm_composed_of_what_onnx_has_is_as_exact_as_log1p() -> None:
    x = np.geomspace(1e-40, 3e38, 2000).astype(np.float32)
    x = np.concatenate([[0.0, np.finfo(np.float32).max], x]).astype(np.float32)
    made = log_from_one(torch.tensor(x), composed=True).numpy()
    np.testing.assert_allclose(made, np.log1p(x.astype(np.float64)), rtol=5e-7, atol=0)


@pytest.mark.usefixtures("quick")
def test_small_values_keep_their_logarithm_without_a_log1p_in_onnx(tmp_path: Path) -> None:
    """log(1 + x) of values about 1e-6, rounded to float32, would be off by several per cent."""
    ranker = fit(
        transform=Mixture(("log1p",), normalise=True), hidden=(), batch_norm=False, steps=1, members=1
    )
    with torch.no_grad():
        ranker.network_.layers.layers[-1].weight[:] = 0.0
        ranker.network_.layers.layers[-1].weight[0, 1] = 1.0
    made = export_ranker(ranker, tmp_path / "ranker.onnx")
    (scores,) = run_file(made.path, [USUAL])
    tiny = np.log1p(USUAL[~np.isnan(USUAL[:, 1]), 1].astype(np.float64))
    exact = ranker.transform_.transform(USUAL)[:, 1]
    np.testing.assert_allclose(scores - scores[0], exact - exact[0], rtol=1e-5, atol=1e-5)
    assert np.ptp(scores) > 1.0 > 1e5 * np.ptp(tiny)


@pytest.mark.usefixtures("quick")
def test_a_ranker_that_float32_holds_badly_is_exported_and_is_no_worse(tmp_path: Path) -> None:
    """Times in seconds, untransformed: their mean is a thousand times their spread."""
    rng = np.random.default_rng(0)
    X = 1.6e9 + 1e5 * rng.normal(size=(200, 3))
    y = np.clip(np.round((X[:, 0] - 1.6e9) / 1e5 + 1), 0, 3)
    chosen: dict[str, Any] = {"transform": "raw", "hidden": (8,), "steps": 200, "lr": 0.05, "random_state": 0}
    ranker = NeuralRanker(**chosen).fit(X, y, qid=np.repeat(np.arange(20), 10))
    made = export_ranker(ranker, tmp_path / "ranker.onnx")
    rows = X.astype(np.float32)
    exact = score_exactly(ranker, rows)
    ours, theirs = score_rows(ranker.network_, rows), run_file(made.path, [rows])[0]
    assert np.abs(theirs - exact).max() <= 1e-5 + 5 * np.abs(ours - exact).max()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("network", ["feedforward", "attention"])
def test_the_exporter_of_an_older_torch_writes_the_same_scores(network: str, tmp_path: Path) -> None:
    ranker = fit(network=network, transform="cdf")
    made = export_ranker(ranker, tmp_path / "ranker.onnx")
    assert made.opset == export.OPSET_TRACED
    check_scores(ranker, made.path)


# -- what the file says of itself --------------------------------------------------------------------------


def test_the_file_names_its_features_in_order_and_what_happens_to_missing_values(
    ranker: NeuralRanker, made: Exported
) -> None:
    model = onnx.load(made.path)
    facts = {each.key: each.value for each in model.metadata_props}
    assert json.loads(facts["features"]) == list(NAMES)
    assert facts["placings"] == pg.__version__ == model.producer_version
    assert facts["missing"].startswith("missing values are filled by the transform: median")
    assert facts["digest"] == "ab" * 32
    assert facts["lists"] == ALONE
    assert json.loads(facts["training"]) == {"rows": 300, "queries": 30}
    (features,), (scores,) = model.graph.input, model.graph.output
    shapes = [
        [dim.dim_param or dim.dim_value for dim in end.type.tensor_type.shape.dim]
        for end in (features, scores)
    ]
    assert ((features.name, scores.name), shapes) == (("features", "scores"), [["rows", 7], ["rows"]])
    assert model.opset_import[0].version == made.opset == 18
    assert made.bytes == made.path.stat().st_size


def test_nothing_of_this_machine_is_in_the_file_and_the_same_ranker_gives_the_same_bytes(
    ranker: NeuralRanker, made: Exported, tmp_path: Path
) -> None:
    content = made.path.read_bytes()
    assert b"placings/" not in content
    assert b".py" not in content
    before = ranker.predict(DATA)
    again = export_ranker(ranker, tmp_path / "again.onnx", digest="ab" * 32)
    assert again.sha256 == made.sha256
    np.testing.assert_array_equal(ranker.predict(DATA), before)  # and the ranker is as it was
    assert not any(getattr(layer, "composed", False) for layer in ranker.network_.modules())
    assert [file.name for file in tmp_path.iterdir()] == ["again.onnx"]  # no data beside it


@pytest.mark.slow
def test_another_opset_is_written_on_request_and_one_that_cannot_be_is_told(
    ranker: NeuralRanker, tmp_path: Path
) -> None:
    made = export_ranker(ranker, tmp_path / "ranker.onnx", opset=20)
    assert made.opset == onnx.load(made.path).opset_import[0].version == 20
    check_scores(ranker, made.path)
    with pytest.raises(BadInput, match="writes opset .*, not 99. Leave opset out"):
        export_ranker(ranker, tmp_path / "other.onnx", opset=99)
    assert [file.name for file in tmp_path.iterdir()] == ["ranker.onnx"]


# -- what is refused, and that nothing is left behind --------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_a_file_that_scores_otherwise_never_takes_its_place(ranker: NeuralRanker, tmp_path: Path) -> None:
    path = tmp_path / "ranker.onnx"
    path.write_bytes(b"the old one")
    trace = export.trace_scorer

    def spoil(scorer: export.Scorer, opset: int | None) -> Any:
        with torch.no_grad():
            scorer.network.layers.layers[-1].bias += 0.25
        return trace(scorer, opset)

    with mock.patch.object(export, "trace_scorer", spoil), pytest.raises(PlacingsError) as caught:
        export_ranker(ranker, path)
    assert "a difference of 0.25; 1e-05 is allowed" in str(caught.value)
    assert path.read_bytes() == b"the old one"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_score_that_is_no_number_in_one_of_the_two_is_a_difference() -> None:
    ours, theirs = np.array([1.0, 2.0]), np.array([1.0, NAN])
    with pytest.raises(PlacingsError, match="gives nan where the ranker gives 2"):
        export.compare_scores(ours, theirs, lambda: ours)
    assert export.compare_scores(np.array([1.0, NAN]), np.array([1.0, 7.0]), lambda: ours) == 0.0
    with pytest.raises(BadInput, match="no finite score"):
        export.compare_scores(np.array([NAN]), np.array([NAN]), lambda: ours)


def test_a_difference_that_rounding_explains_is_allowed_and_no_more() -> None:
    ours, exact = np.array([100.0, 5.0]), np.array([100.1, 5.0])
    assert export.compare_scores(ours, np.array([100.2, 5.0]), lambda: exact) == pytest.approx(0.2 / 101)
    with pytest.raises(PlacingsError, match="difference of 0.5"):
        export.compare_scores(ours, np.array([100.5, 5.0]), lambda: exact)


def test_groupwise_networks_are_refused_with_the_reason(tmp_path: Path) -> None:
    ranker = fit(network="groupwise", group_size=2, steps=2)
    with pytest.raises(
        BadInput, match="groupwise network orders each list by a hash .* ONNX has no operation"
    ):
        export_ranker(ranker, tmp_path / "ranker.onnx")


def test_wide_sparse_input_is_refused_with_the_reason(tmp_path: Path) -> None:
    ranker = fit(transform="log1p", steps=2)
    ranker.network_.transform = torch.nn.EmbeddingBag(3, 7)
    with pytest.raises(BadInput, match="sparse rows too wide to be made dense"):
        export_ranker(ranker, tmp_path / "ranker.onnx")


@pytest.mark.usefixtures("quick")
def test_sparse_rows_that_were_made_dense_are_exported(tmp_path: Path) -> None:
    X = csr_array(np.nan_to_num(np.asarray(DATA.X)))
    ranker = NeuralRanker(transform="log1p", hidden=(4,), steps=3, random_state=0).fit(
        X, DATA.y, qid=DATA.qid
    )
    made = export_ranker(ranker, tmp_path / "ranker.onnx")
    (scores,) = run_file(made.path, [X.toarray()])
    np.testing.assert_allclose(scores, ranker.predict(X), rtol=1e-5, atol=1e-5)


def test_other_rankers_folders_and_lost_folders_are_refused(ranker: NeuralRanker, tmp_path: Path) -> None:
    plain = pg.OriginalOrder().fit(np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1], qid=[1] * 6)
    with pytest.raises(BadInput, match="OriginalOrder is not exported to ONNX"):
        export_ranker(plain, tmp_path / "ranker.onnx")
    with pytest.raises(BadInput, match="is a folder. Name the file to write"):
        export_ranker(ranker, tmp_path)
    with pytest.raises(BadFile, match="does not exist. Make it first"):
        export_ranker(ranker, tmp_path / "nowhere" / "ranker.onnx")


def test_what_would_pass_two_gigabytes_is_refused(ranker: NeuralRanker, tmp_path: Path) -> None:
    with mock.patch.object(export, "LARGEST_FILE", 1000), pytest.raises(BadInput, match="ends at 2 GiB"):
        export_ranker(ranker, tmp_path / "ranker.onnx")


def test_a_library_that_is_lacking_is_named_with_its_command(ranker: NeuralRanker, tmp_path: Path) -> None:
    with (
        mock.patch.object(export, "find_spec", lambda name: None if name == "onnxruntime" else True),
        pytest.raises(
            MissingExtra, match=r"needs onnxruntime. Install it with: pip install 'placings\[onnx\]'"
        ),
    ):
        export_ranker(ranker, tmp_path / "ranker.onnx")
