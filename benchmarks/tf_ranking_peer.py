"""TF-Ranking's side of `tf_ranking.py`; runs in an environment of its own and imports nothing of placings.

Reads one order a line from stdin (JSON), answers each with one line on stdout:

    {"do": "start", "name": …, "file": …, "kind": "ragged" | "padded", "precision": …}
    {"do": "go", "name": …, "steps": 5}          # so many steps further
    {"do": "score", "name": …, "scores": FILE}   # the held-out rows, into a .npy
    {"do": "stop"}

The file holds the batches as packed rows, the starting weights and the held-out rows. "ragged" sends real
rows alone through the network and gives the loss ragged tensors; "padded" sends `[lists, longest, features]`.
Batches are tensors before the clock starts, and the step is a `tf.function`, traced before it starts too.

Needs TensorFlow and TF-Ranking; without them it says so and exits with 0.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.util import find_spec
from typing import Any

if {"-h", "--help"} & set(sys.argv[1:]):
    print(__doc__)
    sys.exit(0)
if find_spec("tensorflow_ranking") is None:
    print("skipped: TF-Ranking is not installed here. benchmarks/tf_ranking.py says how to get it.")
    sys.exit(0)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
THREADS = int(os.environ.get("PLACINGS_THREADS", "2"))

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_ranking as tfr  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(THREADS)
BLOCK = 16_384  # held-out rows scored at once


def build(weights: list[np.ndarray], features: int, facts: dict[str, Any]) -> tf.keras.Model:
    """`[batch norm → dense → relu → dropout] × hidden → batch norm → dense`, with these weights."""
    tf.keras.mixed_precision.set_global_policy(
        "mixed_bfloat16" if facts["precision"] == "bfloat16" else "float32"
    )

    def norm() -> tf.keras.layers.Layer:
        return tf.keras.layers.BatchNormalization(momentum=facts["momentum"], epsilon=facts["eps"])

    layers: list[tf.keras.layers.Layer] = []
    for width in facts["hidden"]:
        layers += [norm(), tf.keras.layers.Dense(width), tf.keras.layers.ReLU()]
        layers.append(tf.keras.layers.Dropout(facts["dropout"]))
    layers += [norm(), tf.keras.layers.Dense(1, dtype="float32")]
    network = tf.keras.Sequential(layers)
    network.build((None, features))
    for variable, value in zip(network.trainable_variables, weights, strict=True):
        variable.assign(value)
    return network


def read_batches(stored: Any, kind: str) -> list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """Rows, labels and the lists' lengths (ragged) or mask (padded) of each step."""
    batches = []
    longest = int(stored["longest"])
    borders = np.concatenate([[0], np.cumsum(stored["sizes"].sum(axis=1))])
    for sizes, start, stop in zip(stored["sizes"], borders[:-1], borders[1:], strict=True):
        rows = stored["X"][stored["rows"][start:stop]]
        labels = stored["y"][stored["rows"][start:stop]]
        if kind == "padded":
            mask = np.arange(longest) < sizes[:, None]
            wide = np.zeros((*mask.shape, rows.shape[1]), dtype=np.float32)
            wide[mask] = rows
            padded = np.full(mask.shape, -1.0, dtype=np.float32)  # its mark for padding
            padded[mask] = labels
            batches.append((tf.constant(wide), tf.constant(padded), tf.constant(mask)))
        else:
            batches.append((tf.constant(rows), tf.constant(labels), tf.constant(sizes)))
    return batches


def make_scorer(network: tf.keras.Model, kind: str) -> Any:
    """Rows and lengths (or mask) → scores as the loss wants them."""
    if kind == "ragged":
        return lambda rows, sizes, training: tf.RaggedTensor.from_row_lengths(
            tf.squeeze(network(rows, training=training), 1), sizes, validate=False
        )
    flatten, restore = tfr.keras.layers.FlattenList(), tfr.keras.layers.RestoreList()

    def score(rows: tf.Tensor, mask: tf.Tensor, training: bool) -> tf.Tensor:
        _, flat = flatten(inputs=({}, {"rows": rows}, mask))
        return restore((network(flat["rows"], training=training), mask))

    return score


class Run:
    """A network in training; starting it traces the step, which is then undone."""

    def __init__(self, order: dict[str, Any]) -> None:
        stored = dict(np.load(order["file"]))
        self.kind, self.held, self.place = order["kind"], stored["held"], 0
        facts = json.loads(str(stored["facts"])) | {"precision": order["precision"]}
        tf.keras.utils.set_random_seed(facts["seed"])
        start = [stored[f"weight{number}"] for number in range(facts["weights"])]
        features = stored["X"].shape[1]
        self.batches = read_batches(stored, self.kind)
        self.network = build(start, features, facts)
        self.loss = tfr.keras.losses.GumbelApproxNDCGLoss(
            sample_size=facts["draws"], ragged=self.kind == "ragged"
        )
        self.optimizer = tf.keras.optimizers.Adagrad(
            facts["lr"], initial_accumulator_value=facts["accumulator"], epsilon=1e-7
        )
        self.optimizer.build(self.network.trainable_variables)
        self.step = self._trace(features)
        # The loss of the first batch without noise, dropout or running statistics: is it the same model?
        bare = build(start, features, facts | {"dropout": 0.0})
        plain = tfr.keras.losses.ApproxNDCGLoss(ragged=self.kind == "ragged")
        rows, labels, sizes = self.batches[0]
        scores = make_scorer(bare, self.kind)(rows, sizes, True)
        self.first = float(plain(self._target(labels, sizes), scores))

    def go(self, steps: int) -> dict[str, Any]:
        """Some steps; what they took."""
        began, used = time.perf_counter(), time.process_time()
        for batch in self.batches[self.place : self.place + steps]:
            float(self.step(*batch))  # placings keeps the loss of each step as a number, too
        self.place += steps
        return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - used}

    def score(self, file: str) -> dict[str, Any]:
        """Scores of the held-out rows."""
        blocks = [self.held[at : at + BLOCK] for at in range(0, len(self.held), BLOCK)]
        scores = [self.network(block, training=False).numpy() for block in blocks]
        np.save(file, np.concatenate(scores)[:, 0].astype(np.float64))
        return {}

    def _target(self, labels: tf.Tensor, sizes: tf.Tensor) -> Any:
        if self.kind == "padded":
            return labels
        return tf.RaggedTensor.from_row_lengths(labels, sizes, validate=False)

    def _trace(self, features: int) -> Any:
        ragged, network, optimizer = self.kind == "ragged", self.network, self.optimizer
        score = make_scorer(network, self.kind)
        shapes = [(None, features), (None,)] if ragged else [(None, None, features), (None, None)]
        last = tf.TensorSpec((None,), tf.int64) if ragged else tf.TensorSpec((None, None), tf.bool)

        @tf.function(input_signature=[*(tf.TensorSpec(shape, tf.float32) for shape in shapes), last])
        def take_step(rows: tf.Tensor, labels: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                value = self.loss(self._target(labels, sizes), score(rows, sizes, True))
            gradients = tape.gradient(value, network.trainable_variables)
            optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
            return value

        variables = (*network.variables, *optimizer.variables)
        kept = [variable.numpy() for variable in variables]
        take_step(*self.batches[0])
        for variable, value in zip(variables, kept, strict=True):
            variable.assign(value)
        return take_step


def main() -> None:
    versions = {"tensorflow": tf.__version__, "tensorflow_ranking": tfr.__version__, "numpy": np.__version__}
    print(json.dumps(versions), flush=True)
    runs: dict[str, Run] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "stop":
            return
        if order["do"] == "start":
            runs[order["name"]] = Run(order)
            answer = {"first_plain_loss": runs[order["name"]].first}
        elif order["do"] == "go":
            answer = runs[order["name"]].go(order["steps"])
        else:
            answer = runs.pop(order["name"]).score(order["scores"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
