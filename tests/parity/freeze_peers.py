"""Prints what TF-Ranking or Rax says of the rule cases; run it in an environment that has one of them.

    python3.11 -m venv tfr && tfr/bin/pip install tensorflow==2.15.1 tensorflow-ranking==0.5.5 "numpy<2"
    tfr/bin/python tests/parity/freeze_peers.py tfr
    python3.11 -m venv rax && rax/bin/pip install rax==0.4.0 "jax<0.6"
    rax/bin/python tests/parity/freeze_peers.py rax

The numbers go into `frozen_peers.py`. Both libraries compute in float32.
"""

import pprint
import sys

from rule_cases import CASES


def ask_tfr(metric, queries, k):
    import tensorflow as tf
    import tensorflow_ranking as tfr

    kinds = {
        "ndcg": tfr.keras.metrics.NDCGMetric,
        "map": tfr.keras.metrics.MeanAveragePrecisionMetric,
        "mrr": tfr.keras.metrics.MRRMetric,
    }
    labels = tf.constant([labels for _, labels in queries], tf.float32)
    scores = tf.constant([scores for scores, _ in queries], tf.float32)
    return float(kinds[metric](topn=k)(labels, scores).numpy())


def ask_rax(metric, queries, k):
    import jax.numpy as jnp
    import rax

    kinds = {"ndcg": rax.ndcg_metric, "map": rax.ap_metric, "mrr": rax.mrr_metric}
    scores = jnp.array([scores for scores, _ in queries])
    labels = jnp.array([labels for _, labels in queries], dtype=jnp.float32)
    return float(kinds[metric](scores, labels, topn=k))


def freeze(ask):
    values = {}
    for metric, cases in CASES.items():
        values[metric] = {}
        for case, (queries, k) in cases.items():
            seen = sorted({round(ask(metric, queries, k), 7) for _ in range(20)})
            values[metric][case] = seen[0] if len(seen) == 1 else "random"
    return values


if __name__ == "__main__":
    pprint.pprint(freeze({"tfr": ask_tfr, "rax": ask_rax}[sys.argv[1]]))
