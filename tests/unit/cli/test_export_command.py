"""`placings export`: a bundle becomes an ONNX file that knows which bundle it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
import typer
from typer.testing import CliRunner, Result

from placings.cli.export import export_model
from placings.core.errors import BadBundle, BadInput, MissingExtra
from placings.rankers import export, neural
from placings.rankers.linear import LinearRanker
from placings.rankers.neural import NeuralRanker
from placings.rankers.original import OriginalOrder
from placings.simulate.rankings import make_ranking

DATA = make_ranking(15, n_features=4, random_state=0).data


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    NeuralRanker(hidden=(4,), steps=5, random_state=0).fit(DATA).save(folder)
    return folder


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    """The older exporter: it takes a tenth of the time, and tests/unit/rankers tests both."""
    with mock.patch.object(export, "MODERN", (99, 0)):
        yield


def call(*words: object) -> Result:
    app = typer.Typer()
    app.command()(export_model)
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_the_file_scores_as_the_bundle_does_and_names_it(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "ranker.onnx"
    result = call(model, out)
    assert result.exit_code == 0
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": np.asarray(DATA.X)})
    ranker = NeuralRanker(hidden=(4,), steps=5, random_state=0).fit(DATA)
    np.testing.assert_allclose(scores, ranker.predict(DATA), rtol=1e-5, atol=1e-5)
    facts = {each.key: each.value for each in onnx.load(out).metadata_props}
    digest = hashlib.sha256((model / "manifest.json").read_bytes()).hexdigest()
    assert facts["digest"] == digest
    assert "4 features" in result.stdout
    assert f"sha256: {hashlib.sha256(out.read_bytes()).hexdigest()}" in result.stdout


def test_machines_get_json(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "ranker.onnx"
    told = json.loads(call(model, out, "--json").stdout)
    assert told["path"] == str(out)
    assert told["bytes"] == out.stat().st_size
    assert told["opset"] == export.OPSET_TRACED
    assert told["difference"] < 1e-5
    assert told["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()


def test_another_bundle_than_the_pinned_one_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="not the bundle that was pinned"):
        call(model, tmp_path / "ranker.onnx", "--digest", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_linear_ranker_in_the_folder_of_a_run_is_written_too(tmp_path: Path) -> None:
    ranker = LinearRanker(loss="ridge").fit(DATA)
    digest = ranker.save(tmp_path / "run" / "model")
    told = json.loads(call(tmp_path / "run", tmp_path / "ranker.onnx", "--json").stdout)
    assert (told["digest"], told["difference"] < 1e-5) == (digest, True)


def test_what_a_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    OriginalOrder().fit(DATA).save(tmp_path / "model")
    with pytest.raises(BadInput, match="OriginalOrder is not exported to ONNX"):
        call(tmp_path / "model", tmp_path / "ranker.onnx")


def test_without_torch_the_command_that_installs_it_is_named(model: Path, tmp_path: Path) -> None:
    lacking = MissingExtra("a neural ranker", "PyTorch", "neural")
    with (
        mock.patch.object(neural, "need_torch", side_effect=lacking),
        pytest.raises(MissingExtra, match=r"pip install 'placings\[neural\]'"),
    ):
        call(model, tmp_path / "ranker.onnx")


def test_the_help_shows_an_example() -> None:
    result = call("--help")
    assert result.exit_code == 0
    assert "placings export runs/neural/model ranker.onnx" in result.stdout
