"""Two processes under `torchrun` take the steps of one: losses, weights, batch norm, checks, and the end.

As a script (`torchrun --nproc-per-node 2 tests/e2e/test_processes.py FOLDER`) it is what torchrun starts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import placings as pg
from placings.core.errors import PlacingsError
from placings.data.ranking import RankingData
from placings.transforms import Mixture

COMMON: dict[str, Any] = {
    "hidden": [8], "members": 1, "dropout": 0.5, "batch": 7, "steps": 20, "check_every": 5, "random_state": 0,
    "optimizer": "adagrad", "lr": 0.1, "mixture_lr": 0.1, "weight_decay": 0.0, "list_size": 12,
}  # fmt: skip
# three processes load torch and take every case's steps: half a minute. A single process is the daily case.
pytestmark = pytest.mark.slow

CASES: dict[str, dict[str, Any]] = {
    "plain": {"dropout": 0.0, "transform": "gauss"},
    "noise": {"loss": "approx_ndcg@5", "draws": 4},  # dropout, Gumbel noise, batch norm
    "members": {"members": 3, "hidden": [8, 4]},
    "bases": {
        "transform": Mixture(start="random", dropout=0.4, entropy=0.05, normalise=True, random_state=0)
    },
    "clip and mean": {"clip": 0.05, "average": 0.9, "schedule": "cosine"},
    "patience": {"steps": 500, "lr": 1e-6, "mixture_lr": 1e-6, "check_every": 2, "patience": 3},
    "adamw": {
        "optimizer": "adamw",
        "lr": 0.01,
        "weight_decay": 0.1,
        "loss": "mse",
    },  # which sees the last bias
    "attention": {"network": "attention", "width": 8, "input_noise": 0.1},
    "groups": {"group_size": 3},
    "weights": {"weighted": True},
    "without checks": {"holdout": 0.0, "average": 0.5},
}


def make_data() -> RankingData:
    return pg.make_ranking(30, n_features=6, mean_size=12, random_state=0).data


def fit(case: str, **more: Any) -> pg.NeuralRanker:
    settings = {**COMMON, **CASES[case], **more}
    data = make_data()
    weight = np.random.default_rng(0).uniform(0.2, 2.0, data.n_rows) if settings.pop("weighted", 0) else None
    return pg.NeuralRanker(**settings).fit(data, sample_weight=weight)


def note(ranker: pg.NeuralRanker) -> dict[str, Any]:
    state = {name: tensor.numpy().copy() for name, tensor in ranker.network_.state_dict().items()}
    history = ranker.history_
    return {
        **state,
        "scores": ranker.predict(make_data()),
        "loss": np.array(history.loss),
        "gradient": np.array(history.gradient),
        "checks": np.array(history.checks).reshape(-1, 2),
        "best": np.array(history.best_step),
    }


# -- the script --------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stop_and_go_on(folder: Path) -> dict[str, Any]:
    """A run that ends after 13 steps, and the one that takes it up."""
    from placings.training import progress

    plain, path = progress.show_steps, folder / "run.safetensors"

    @contextmanager
    def stop(steps: int, wanted: bool, clock: object) -> Any:
        def tell(step: int) -> None:
            if step == 13:
                raise Stop

        yield tell

    progress.show_steps = stop  # type: ignore[assignment]
    with suppress(Stop):
        fit("members", checkpoint=path, checkpoint_every=4)
    progress.show_steps = plain
    return note(fit("members", checkpoint=path, checkpoint_every=4))


def complain(**changes: Any) -> str:
    """What a fit that cannot succeed says."""
    try:
        pg.NeuralRanker(
            **{**COMMON, "transform": "raw", "batch_norm": False, **changes.pop("settings", {})}
        ).fit(changes.pop("data"))
    except PlacingsError as error:
        return str(error)
    return "nothing"


def break_list(of: int) -> RankingData:
    """A value that no float32 survives, in a list that one of the processes gets in the first step."""
    from placings.training.batches import BatchSampler

    data = make_data()
    query = int(BatchSampler(data.offsets, 30, None, 0).draw(0, part=of, parts=2).queries[3])
    X = np.array(data.X)
    X[data.offsets[query]] = 3e38
    return data.replace(X=X)


def main(folder: Path) -> None:
    rank = int(os.environ["RANK"])
    torch.manual_seed(rank)  # nothing may come from a stream of its own
    own = folder / f"rank{rank}"
    own.mkdir()
    (own / "checkpoints").mkdir()
    results = {case: note(fit(case)) for case in CASES}
    results["resumed"] = stop_and_go_on(own / "checkpoints")
    whole = {"batch": 30, "list_size": 10_000, "holdout": 0.0, "loss": "mse"}
    said = {
        "too few": complain(data=make_data(), settings={"batch": 1}),
        **{f"broken {of}": complain(data=break_list(of), settings=whole) for of in (0, 1)},
    }
    for case, values in results.items():
        np.savez(own / f"{case}.npz", **values)
    (own / "said.json").write_text(json.dumps(said))
    torch.distributed.destroy_process_group()


# -- the tests ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__,
        str(folder),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PLACINGS_THREADS": "1"}
    # a group of its own: where the time limit ends this, the processes that torchrun started end too
    run = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        _, said = run.communicate()
    except BaseException:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        raise
    assert run.returncode == 0, said[-4000:]
    return folder


def read(folder: Path, rank: int, case: str) -> dict[str, Any]:
    with np.load(folder / f"rank{rank}" / f"{case}.npz") as stored:
        return dict(stored)


def assert_close(found: dict[str, Any], expected: dict[str, Any], atol: float) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=atol, atol=atol, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_take_the_steps_of_one(folder: Path, case: str) -> None:
    expected = note(fit(case))
    if case == "plain":
        assert any("running_var" in name for name in expected)
    assert_close(read(folder, 0, case), expected, 1e-5)


@pytest.mark.parametrize("case", CASES)
def test_all_processes_end_with_the_same_bits(folder: Path, case: str) -> None:
    one, other = read(folder, 0, case), read(folder, 1, case)
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(other[name], values, err_msg=name)


def test_all_stop_at_the_same_check(folder: Path) -> None:
    found = read(folder, 0, "patience")
    assert len(found["loss"]) == int(found["best"]) + 6 < 500


def test_a_run_of_two_that_was_stopped_goes_on_to_the_same_bits(folder: Path) -> None:
    whole, resumed = read(folder, 0, "members"), read(folder, 0, "resumed")
    for name, values in whole.items():
        np.testing.assert_array_equal(resumed[name], values, err_msg=name)


def test_the_first_process_alone_writes(folder: Path) -> None:
    assert [file.name for file in (folder / "rank0" / "checkpoints").iterdir()] == ["run.safetensors"]
    assert not list((folder / "rank1" / "checkpoints").iterdir())


def test_lists_that_cannot_be_shared_out_are_told(folder: Path) -> None:
    for rank in range(2):
        said = json.loads((folder / f"rank{rank}" / "said.json").read_text())
        assert said["too few"].startswith("1 lists a step cannot be shared out over 2 processes. Raise batch")


def test_all_processes_stop_where_one_has_no_number_and_that_one_names_the_list(folder: Path) -> None:
    for of in range(2):
        for rank in range(2):
            said = json.loads((folder / f"rank{rank}" / "said.json").read_text())[f"broken {of}"]
            assert "at step 1, in " in said
            if rank == of:
                assert "; the largest value there is 3e+38, of feature" in said
            else:
                assert "in a list of another process" in said


if __name__ == "__main__":
    main(Path(sys.argv[1]))
