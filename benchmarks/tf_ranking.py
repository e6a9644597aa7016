"""Training speed on CPU cores against TF-Ranking: same network, loss, data, batches and starting weights.

    python benchmarks/tf_ranking.py --peer tfr/bin/python [--steps 60] [--rounds 3] [--padded] [--json]

The peer's environment (Python 3.11): `python -m venv tfr && tfr/bin/pip install tensorflow==2.15.1
tensorflow-ranking==0.5.5`. It runs as a process of its own; see tf_ranking_peer.py.

The network is that of preset zhuang2020 (1024-512-256, batch norm in front of each layer, dropout 0.5) on
log1p features; the loss is ApproxNDCG under 8 Gumbel draws (TF-Ranking knows no cutoff), AdaGrad with initial
accumulators of 0.1, batches of 128 lists of at most 200 rows. Data are generated with MSLR's character. In
each round all systems train from one set of weights on the same batches, taking turns of a few steps, so that
other work on the machine meets all of them; the next round has another seed. Speed counts real rows, not
padding. The ratio is the median over turns of the ratio of a turn; beside it stand the quarters. CPU seconds
of a step are printed too: other work stretches the wall clock more than them.

TF-Ranking runs as a graph (`tf.function`) on ragged tensors: real rows alone pass its network, as ours do.
`--padded` times padded lists too, which take it about twice as long (XLA, tried by hand, does not make them
faster and refuses ragged tensors); `--mixed` its mixed_bfloat16 policy. Ratios of both our precisions are
against the fastest TF-Ranking in float32. Two threads each; OMP_WAIT_POLICY=passive lets a thread of ours
that waits sleep, as TensorFlow's do: where other programs want the cores too, waiting awake halves the speed.

NDCG@5 is of held-out queries. Its noise is told twice: the standard deviation over rounds (other weights,
batches and noise), and a 95 % interval of the difference to TF-Ranking (queries paired, rounds averaged
first), which should hold 0.

Needs the peer's environment, as `--peer` or in $PEER; without it, it says so and exits with 0.
"""

# ruff: noqa: E402 (threads are settled before torch is there)

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

THREADS = 2
os.environ.setdefault("PLACINGS_THREADS", str(THREADS))  # before anything counts its cores
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # a thread that waits sleeps, as TensorFlow's do

import numpy as np
import torch

import placings as pg
from placings.core import Floats
from placings.data import RankingData
from placings.losses import approx_ndcg_loss, find_loss
from placings.metrics import metric
from placings.rankers import Network, build_network, settle
from placings.training import Job, TrainingPlan, score_rows, set_up_job, take_steps
from placings.transforms import Raw

SETTINGS = settle("zhuang2020", {"loss": "approx_ndcg"})
TURN = 5  # steps that a system takes before the next one has its turn
WANTED = {"placings float32": 1.2, "placings bfloat16": 2.0}


def make_data(queries: int, held: int) -> tuple[RankingData, RankingData]:
    """Training and held-out queries, features already transformed by log1p."""
    made = pg.make_ranking(queries + held, random_state=0).data
    X = (np.sign(made.X) * np.log1p(np.abs(made.X))).astype(np.float32)
    data = made.replace(X=X)
    return data[:queries], data[queries:]


def set_up(data: RankingData, steps: int, seed: int, lr: float, precision: str, dropout: float) -> Job:
    """A network at the seed's weights, and all that its steps need."""
    plan = TrainingPlan(
        steps=steps, batch=SETTINGS.batch, list_size=SETTINGS.list_size, optimizer="adagrad", lr=lr,
        mixture_lr=None, weight_decay=0.0, check_every=steps, patience=steps, seed=seed, precision=precision,
    )  # fmt: skip
    torch.manual_seed(seed)
    settings = settle("zhuang2020", {"loss": "approx_ndcg", "dropout": dropout})
    network = build_network(settings, Raw().fit(data.X))
    loss = find_loss("approx_ndcg", draws=SETTINGS.draws)
    return set_up_job(network, loss, data, plan, torch.device("cpu"), None)


def write_round(path: Path, job: Job, data: RankingData, held: RankingData) -> list[int]:
    """The batches, the starting weights and the held-out rows for the peer; the rows of each step."""
    batches = [job.deck.draw(step) for step in range(job.plan.steps)]
    tensors = [tensor.detach().numpy() for tensor in job.model.parameters()]
    weights = {f"weight{n}": tensor.T if tensor.ndim == 2 else tensor for n, tensor in enumerate(tensors)}
    facts = {
        "hidden": SETTINGS.hidden, "dropout": SETTINGS.dropout, "momentum": SETTINGS.momentum,
        "eps": SETTINGS.eps, "draws": SETTINGS.draws, "lr": job.plan.lr, "accumulator": 0.1,
        "seed": job.plan.seed, "weights": len(weights),
    }  # fmt: skip
    np.savez(
        path, X=data.X, y=data.y.astype(np.float32), held=held.X, longest=SETTINGS.list_size or 0,
        rows=np.concatenate([batch.rows for batch in batches]),
        sizes=np.stack([batch.sizes for batch in batches]), facts=json.dumps(facts), **weights,
    )  # fmt: skip
    return [len(batch.rows) for batch in batches]


class Ours:
    """A network of ours in training; one step is taken and undone first."""

    def __init__(
        self, data: RankingData, held: RankingData, steps: int, seed: int, lr: float, precision: str
    ):
        self.held, self.place = held, 0
        self.job = set_up(data, steps, seed, lr, precision, SETTINGS.dropout)
        before = {name: tensor.clone() for name, tensor in self.job.model.state_dict().items()}
        take_steps(self.job, 0, 1, lambda step: None)
        self.job.model.load_state_dict(before)
        for state in self.job.optimizer.state.values():
            state["sum"].fill_(0.1)
            state["step"].zero_()
        self.first = find_plain_loss(data, self.job)

    def go(self, steps: int) -> dict[str, float]:
        """Some steps; what they took."""
        began, used = time.perf_counter(), time.process_time()
        take_steps(self.job, self.place, self.place + steps, lambda step: None)
        self.place += steps
        return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - used}

    def score(self) -> Floats:
        """Scores of the held-out rows."""
        return score_rows(self.job.model, self.held.X, self.held.offsets)


def find_plain_loss(data: RankingData, job: Job) -> float:
    """The first batch's loss without noise or dropout, in training: what the peer computes too."""
    network: Network = set_up(data, 1, job.plan.seed, job.plan.lr, "float32", 0.0).model  # type: ignore[assignment]
    batch = job.deck.draw(0)
    packed = batch.pack(torch.device("cpu"))
    with torch.no_grad():
        scores = network.train()(network.prepare(torch.from_numpy(data.X[batch.rows])), packed)
        labels = torch.from_numpy(data.y[batch.rows].astype(np.float32))
        parts = [
            approx_ndcg_loss(packed.lay_out(scores, g), packed.lay_out(labels, g), packed.mask(g))
            for g in packed.groups
        ]
    return float(torch.cat(parts).mean())


class Peer:
    """TF-Ranking in its own process: one order in, one answer out."""

    def __init__(self, python: str) -> None:
        file = Path(__file__).with_name("tf_ranking_peer.py")
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.words: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the process)
        self.process = subprocess.Popen(
            [python, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.words,
            text=True, env=alone,
        )  # fmt: skip
        self.versions = self._hear()

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """The answer to an order."""
        self._say({"do": do, **order})
        return self._hear()

    def stop(self) -> None:
        """Let it end."""
        self._say({"do": "stop"})
        self.process.wait(timeout=60)

    def _say(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.words.seek(0)
            raise SystemExit(f"the peer ended without an answer:\n{self.words.read()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Theirs:
    """A network of TF-Ranking in training, in the peer's process."""

    def __init__(self, peer: Peer, folder: Path, kind: str, precision: str) -> None:
        self.peer, self.name, self.scores = peer, f"{kind} {precision}", folder / "scores.npy"
        order = {"file": str(folder / "round.npz"), "kind": kind, "precision": precision}
        self.first = float(peer.ask("start", name=self.name, **order)["first_plain_loss"])

    def go(self, steps: int) -> dict[str, float]:
        """Some steps; what they took."""
        return self.peer.ask("go", name=self.name, steps=steps)

    def score(self) -> Floats:
        """Scores of the held-out rows."""
        self.peer.ask("score", name=self.name, scores=str(self.scores))
        return np.asarray(np.load(self.scores))


@dataclass
class Record:
    """What one system did: its turns, and the NDCG@5 of each held-out query after each round."""

    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    ndcg: list[Floats] = field(default_factory=list)
    first: list[float] = field(default_factory=list)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """All rounds."""
    data, held = make_data(given.queries, given.held)
    peer = Peer(given.peer)
    kinds = [("placings", "float32"), ("ragged", "float32"), ("placings", "bfloat16")]
    kinds += [("padded", "float32")] if given.padded else []
    kinds += [("ragged", "bfloat16")] if given.mixed else []
    records: dict[str, Record] = {}
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.rounds):
            start = set_up(data, given.steps, seed, given.lr, "float32", SETTINGS.dropout)
            sizes = write_round(Path(folder) / "round.npz", start, data, held)
            systems: dict[str, Ours | Theirs] = {}
            for who, precision in kinds:
                if who == "placings":
                    systems[f"{who} {precision}"] = Ours(data, held, given.steps, seed, given.lr, precision)
                else:
                    systems[f"TF-Ranking {who} {precision}"] = Theirs(peer, Path(folder), who, precision)
            for place in range(0, given.steps, TURN):
                steps = min(TURN, given.steps - place)
                loads.append(os.getloadavg()[0])
                for name, system in systems.items():
                    took = system.go(steps)
                    record = records.setdefault(name, Record())
                    record.rows.append(sum(sizes[place : place + steps]))
                    record.seconds.append(took["seconds"])
                    record.cpu_seconds.append(took["cpu_seconds"])
                    if sys.stderr.isatty() or given.verbose:
                        speed = record.rows[-1] / took["seconds"]
                        where = f"round {seed + 1}, step {place + steps}"
                        print(f"{where}: {name} {speed:,.0f} rows/s, load {loads[-1]:.1f}", file=sys.stderr)
            for name, system in systems.items():
                values = metric("ndcg@5")(system.score(), held.y, held.offsets)
                records[name].ndcg.append(np.asarray(values))
                records[name].first.append(system.first)
    peer.stop()
    return summarise(records, loads, given, peer.versions)


def summarise(
    records: dict[str, Record], loads: list[float], given: argparse.Namespace, versions: dict[str, str]
) -> dict[str, Any]:
    """Speeds, ratios to the fastest TF-Ranking in float32, and NDCG with its noise."""
    speed = {name: sum(record.rows) / sum(record.seconds) for name, record in records.items()}
    peers = [name for name in records if name.startswith("TF-Ranking") and name.endswith("float32")]
    base = max(peers, key=speed.__getitem__)
    mean = {name: np.mean(record.ndcg, axis=0) for name, record in records.items()}
    systems = {}
    for name, record in records.items():
        ratios = np.array(records[base].seconds) / record.seconds
        apart = (mean[name] - mean[base])[~np.isnan(mean[name])]
        values = [float(np.nanmean(each)) for each in record.ndcg]
        systems[name] = {
            "rows_a_second": speed[name],
            "ratio": float(np.median(ratios)),
            "ratio_quarters": np.quantile(ratios, [0.25, 0.75]).tolist(),
            "cpu_seconds_a_step": sum(record.cpu_seconds) / (given.steps * given.rounds),
            "cpu_ratio": sum(records[base].cpu_seconds) / sum(record.cpu_seconds),
            "ndcg@5": float(np.mean(values)),
            "ndcg@5_of_rounds": values,
            "ndcg@5_spread": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "ndcg@5_difference": float(apart.mean()),
            "ndcg@5_half_interval": float(1.96 * apart.std(ddof=1) / np.sqrt(len(apart))),
            "first_plain_loss": record.first,
            "wanted": WANTED.get(name),
        }
    return {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "versions": {"placings": version("placings"), "torch": torch.__version__, **versions},
        "steps": given.steps, "rounds": given.rounds, "turn": TURN, "lr": given.lr, "queries": given.queries,
        "held_out_queries": given.held, "load": [min(loads), max(loads)],
        "rows_a_step": sum(records[base].rows) / (given.steps * given.rounds),
        "against": base, "systems": systems,
        "fast_enough": all(systems[name]["ratio"] >= wanted for name, wanted in WANTED.items()),
    }  # fmt: skip


def describe_machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else 'unknown processor'}, {THREADS} threads of {os.cpu_count()} cores"


def show(facts: dict[str, Any]) -> None:
    """The table."""
    print(f"{facts['date']}, {facts['machine']}, load {facts['load'][0]:.1f} to {facts['load'][1]:.1f}")
    print(", ".join(f"{name} {number}" for name, number in facts["versions"].items()))
    print(
        f"{facts['rounds']} rounds × {facts['steps']} steps (turns of {facts['turn']}) of "
        f"{facts['rows_a_step']:,.0f} real rows, lr {facts['lr']}; NDCG@5 of {facts['held_out_queries']} "
        "held-out queries\n"
    )
    heads = ("system", "rows/s", "ratio", "quarters", "CPU s/step", "by CPU", "NDCG@5", "± rounds", "− peer")
    widths = (27, 7, 5, 9, 10, 6, 6, 8, 16)
    print("| " + " | ".join(f"{head:<{width}}" for head, width in zip(heads, widths, strict=True)) + " |")
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for name, found in facts["systems"].items():
        quarters = "–".join(f"{edge:.2f}" for edge in found["ratio_quarters"])
        spread = "" if found["ndcg@5_spread"] is None else f"{found['ndcg@5_spread']:.4f}"
        apart = f"{found['ndcg@5_difference']:+.4f} ± {found['ndcg@5_half_interval']:.4f}"
        print(
            f"| {name:<27} | {found['rows_a_second']:>7,.0f} | {found['ratio']:>5.2f} | {quarters:<9} "
            f"| {found['cpu_seconds_a_step']:>10.2f} | {found['cpu_ratio']:>6.2f} | {found['ndcg@5']:.4f} "
            f"| {spread:<8} | {apart if name != facts['against'] else '':<16} |"
        )
    print(f"\nratios are against {facts['against']}; the first loss without noise and dropout of each:")
    print("  " + ", ".join(f"{n} {f['first_plain_loss'][0]:.6f}" for n, f in facts["systems"].items()))
    for name, wanted in WANTED.items():
        ratio = facts["systems"][name]["ratio"]
        print(f"{name}: {ratio:.2f} × (wanted: {wanted} ×): {'yes' if ratio >= wanted else 'NO'}")


def has_tf_ranking(peer: str | None) -> bool:
    """Whether that Python is there and finds TF-Ranking; nothing is imported."""
    script = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow_ranking') is None)"
    return bool(peer and shutil.which(peer)) and subprocess.run([str(peer), "-c", script]).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peer", default=os.environ.get("PEER"), help="the Python of an environment with TF-Ranking 0.5.5"
    )
    parser.add_argument("--steps", type=int, default=60, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--held", type=int, default=1000, help="held-out queries")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--padded", action="store_true", help="TF-Ranking on padded lists too")
    parser.add_argument("--mixed", action="store_true", help="TF-Ranking under mixed_bfloat16 too")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not has_tf_ranking(given.peer):
        print(f"skipped: no TF-Ranking in {given.peer or 'an environment of its own'}. See --help.")
        return
    torch.set_num_threads(THREADS)
    facts = measure(given)
    if given.json:
        print(json.dumps(facts, indent=2))
    else:
        show(facts)
    sys.exit(0 if facts["fast_enough"] else 1)


if __name__ == "__main__":
    main()
