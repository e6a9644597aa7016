"""A run killed at any moment goes on to the same bits: SIGKILL, at every kind of moment, again and again.

As a script (`python tests/e2e/test_resume.py FOLDER CASE`) it is what is killed: it forks a run for each
moment, and one that ends.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.transforms import Mixture

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__)
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PLACINGS_THREADS")
ONE_THREAD = dict.fromkeys(LIBRARIES, "1")  # a fork would lose the others
COMMON: dict[str, Any] = {"hidden": [8], "batch": 4, "steps": 22, "check_every": 3, "random_state": 0}
CASES: dict[str, dict[str, Any]] = {
    "default": {"members": 3},  # AdamW, a holdout, a mixture, dropout
    "adagrad": {"members": 1, "optimizer": "adagrad", "lr": 0.3, "loss": "approx_ndcg@5", "draws": 3},
    "momentum": {"members": 2, "optimizer": "sgd", "lr": 0.1, "optimizer_momentum": 0.9, "clip": 0.5},
    "mean": {"members": 2, "average": 0.9, "schedule": "cosine", "warmup": 3},
    "patience": {"members": 1, "lr": 1e-7, "steps": 900, "check_every": 4, "patience": 4},
    "attention": {"network": "attention", "width": 8, "input_noise": 0.2, "list_size": 5},
}
MOMENTS = [
    ("told", 2),  # before there is a checkpoint
    ("half", 4),  # while the first is being written
    ("unnamed", 4),  # written, but not yet in its place
    ("before", 5),  # between the gradient and the step
    ("named", 4),  # just in its place
    ("check", 6),  # while the held-out queries are being scored
    ("after", 9),  # between the step and the mean of weights
    ("told", 10),
    ("half", 12),
    ("named", 16),
    ("told", 18),
]  # and the number of steps that have to be done by then


def make_data() -> pg.RankingData:
    return pg.make_ranking(30, n_features=6, mean_size=10, random_state=0).data


def make_ranker(case: str, checkpoint: Path | None) -> pg.NeuralRanker:
    settings = {**COMMON, **CASES[case], "checkpoint": checkpoint, "checkpoint_every": 4}
    if case == "mean":
        settings["transform"] = Mixture(dropout=0.3, entropy=0.01, start="random", random_state=0)
    return pg.NeuralRanker(**settings)


def note(ranker: pg.NeuralRanker, path: Path) -> None:
    """All that a run came to, bit by bit."""
    state = {name: tensor.numpy() for name, tensor in ranker.network_.state_dict().items()}
    told = {**ranker.history_.to_dict(), "seconds": 0.0}  # how long it took is no bit of the run
    history = np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)
    np.savez(path, history=history, scores=ranker.predict(make_data()), **state)


# -- the script --------------------------------------------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment: str, step: int) -> None:
    """Lay what kills this process at a kind of moment, once so many steps are done."""
    import torch.optim.optimizer as optimizers

    from placings.training import loop, progress

    done = 0

    def if_due(action: Callable[[], None] = die) -> None:
        if done >= step:
            action()

    @contextmanager
    def count(steps: int, wanted: bool, clock: object) -> Any:
        def tell(number: int) -> None:
            nonlocal done
            done = number
            if moment == "told":
                if_due()

        yield tell

    progress.show_steps = count  # type: ignore[assignment]
    write, rename, check = Path.write_bytes, Path.replace, loop.Watch.check

    def write_half(self: Path, content: Any) -> int:
        if self.suffix != ".part" or done < step:
            return write(self, content)
        write(self, content[: len(content) // 2])
        die()
        return 0

    def replace(self: Path, target: Any) -> Path:
        if moment == "unnamed":
            if_due()
        found = rename(self, target)
        if moment == "named":
            if_due()
        return found

    def look(self: Any) -> float:
        if_due()
        return check(self)

    if moment == "half":
        Path.write_bytes = write_half  # type: ignore[method-assign]
    elif moment in ("unnamed", "named"):
        Path.replace = replace  # type: ignore[method-assign]
    elif moment == "check":
        loop.Watch.check = look  # type: ignore[method-assign]
    elif moment == "before":
        optimizers.register_optimizer_step_pre_hook(lambda *given: if_due())  # type: ignore[no-untyped-call]
    elif moment == "after":
        optimizers.register_optimizer_step_post_hook(lambda *given: if_due())  # type: ignore[no-untyped-call]


def fork(work: Callable[[], None]) -> int:
    """Do the work in a process of its own; what ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def warm_up(cases: list[str]) -> None:
    """Load what loads on first use, once, before the forks; no gradient, whose threads a fork would lose."""
    import torch._dynamo

    from placings.training import loop
    from placings.training.steps import find_losses

    def look(model: Any, loss: Any, data: pg.RankingData, plan: Any, **more: Any) -> Any:
        job = loop.set_up_job(model, loss, data, plan, torch.device("cpu"), None)
        batch = job.deck.draw(0)
        index = torch.from_numpy(batch.rows)
        with torch.no_grad():
            rows = job.source.take(batch, index)
            find_losses(job, rows, batch.pack(torch.device("cpu")), job.source.labels[index], None)
            loop.Watch(model, data, more["metric"]).check()
        return loop.History()

    plain, loop.train = loop.train, look  # type: ignore[assignment]
    for case in cases:
        make_ranker(case, None).fit(make_data()).predict(make_data())
    loop.train = plain


def main(folder: Path, cases: list[str]) -> None:
    warm_up(cases)
    for case in cases:
        path = folder / f"{case}.safetensors"
        assert (
            fork(
                lambda case=case: note(make_ranker(case, None).fit(make_data()), folder / f"{case}.whole.npz")
            )
            == 0
        )

        def go_on(moment: tuple[str, int] | None, case: str = case, path: Path = path) -> None:
            if moment is not None:
                arm(*moment)
            ranker = make_ranker(case, path).fit(make_data())
            note(ranker, folder / f"{case}.found.npz")

        for moment in MOMENTS:
            ended = fork(lambda moment=moment: go_on(moment))
            print(case, *moment, ended, path.exists(), len(list(folder.glob(".*.part"))), flush=True)
        assert fork(lambda: go_on(None)) == 0


# -- the tests ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(case: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), case],
        env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    (folder / "said.txt").write_text(result.stdout)
    return folder


def test_a_run_killed_at_every_kind_of_moment_ends_with_the_same_bits(folder: Path, case: str) -> None:
    with np.load(folder / f"{case}.whole.npz") as whole, np.load(folder / f"{case}.found.npz") as found:
        assert set(whole) == set(found)
        for name in whole:
            np.testing.assert_array_equal(found[name], whole[name], err_msg=name)
        history = json.loads(whole["history"].tobytes())
    waited = 4 * 4  # the last case stops by itself: patience, check_every
    assert len(history["loss"]) == (22 if case != "patience" else history["best_step"] + waited)
    assert history["best_step"] in {step for step, _ in history["checks"]}


def test_every_run_was_really_killed_and_left_what_it_should(folder: Path, case: str) -> None:
    lines = [line.split() for line in (folder / "said.txt").read_text().splitlines()]
    assert len(lines) == len(MOMENTS)
    assert {line[0] for line in lines} == {case}
    for _, moment, step, ended, exists, leftovers in lines:
        assert ended == str(-signal.SIGKILL), (moment, step)
        first = (moment, int(step)) in MOMENTS[:3]
        assert exists == str(not first or (moment, int(step)) == ("named", 4))
        assert int(leftovers) == (moment in ("half", "unnamed"))  # swept up by the next run
    assert not list(folder.glob(".*.part"))


RUN = """
import sys
import placings as pg
data = pg.make_ranking(30, n_features=6, mean_size=10, random_state=0).data
ranker = pg.NeuralRanker(
    members=4, hidden=[16], steps=600, holdout=0.0, random_state=0, checkpoint=sys.argv[1],
    checkpoint_every=20,
).fit(data)
ranker.save(sys.argv[2])
"""


def test_a_run_killed_from_outside_at_random_ends_with_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = [sys.executable, "-c", RUN, str(tmp_path / "other.safetensors"), str(tmp_path / "whole")]
    subprocess.run(whole, check=True, timeout=300)
    chance = random.Random(0)
    kills = 0
    for how in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGKILL):
        before = path.stat().st_mtime_ns if path.exists() else 0
        run = subprocess.Popen(
            [sys.executable, "-c", RUN, str(path), str(tmp_path / "model")], stderr=subprocess.PIPE, text=True
        )
        while run.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.15))
        run.send_signal(how)
        said = run.communicate(timeout=300)[1]
        if run.returncode == 0:
            break  # it was quicker
        kills += 1
        if how == signal.SIGINT:
            assert f"is in {path}. Fit again with the same data and settings to go on from there." in said
    assert kills >= 2
    subprocess.run([sys.executable, "-c", RUN, str(path), str(tmp_path / "model")], check=True, timeout=300)
    expected, found = pg.load(tmp_path / "whole"), pg.load(tmp_path / "model")
    np.testing.assert_array_equal(found.predict(make_data()), expected.predict(make_data()))
    weights = [(tmp_path / name / "network.safetensors").read_bytes() for name in ("whole", "model")]
    assert weights[0] == weights[1]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
