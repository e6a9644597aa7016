"""Prints what TF-Ranking or Rax says of the loss cases; run it in an environment that has one of them.

    python3.11 -m venv tfr && tfr/bin/pip install tensorflow==2.15.1 tensorflow-ranking==0.5.5 "numpy<2"
    tfr/bin/python tests/parity/freeze_losses.py tfr
    python3.11 -m venv rax && rax/bin/pip install rax==0.4.0 "jax<0.6"
    rax/bin/python tests/parity/freeze_losses.py rax

The numbers go into `frozen_losses.py`. Both libraries compute in float32. Every loss is asked for the sum
of what it would average (`reduction=NONE` and `reduce_fn=None`, then added up), one number for each query.
"""

import functools
import math
import pprint
import sys

PAD = None

# Scores and labels of one query a line. Scores are distinct: TF-Ranking breaks tied ones at random.
CASES = {
    "graded": [
        ([0.3, -1.2, 2.1, 0.7, -0.4, 1.5], [2, 0, 4, 1, 3, 0]),
        ([1.1, 0.2, -0.8, 0.9, PAD, PAD], [0, 2, 1, 2, PAD, PAD]),  # tied labels, padding
        ([0.5, -0.5, 0.1, PAD, PAD, PAD], [0, 0, 0, PAD, PAD, PAD]),  # nothing relevant
        ([-0.2, 0.6, 1.3, -1.7, 0.4, PAD], [1, 0, 0, 1, 0, PAD]),
        ([0.8, PAD, PAD, PAD, PAD, PAD], [3, PAD, PAD, PAD, PAD, PAD]),  # one item
    ],
    "shares": [  # labels within 0 and 1
        ([0.3, -1.2, 2.1, 0.7, -0.4, 1.5], [1, 0, 1, 0, 0.25, 0]),
        ([1.1, 0.2, -0.8, 0.9, PAD, PAD], [0, 0.5, 1, 0, PAD, PAD]),
    ],
    "untied": [  # no two labels of a query are equal
        ([0.3, -1.2, 2.1, 0.7], [2, 0, 4, 1]),
        ([1.1, 0.2, -0.8, PAD], [0, 2, 1, PAD]),
        ([-0.2, 0.6, PAD, PAD], [1, 0, PAD, PAD]),
    ],
    "apart": [([9.0, -6.0, 3.0, 6.0, -3.0, 0.0], [0, 1, 3, 1, 4, 2])],  # ranks are whole numbers
    "extreme": [([60.0, -5.0, 0.0, 5.0], [0, 2, 1, 0])],  # all but one have less than 1e-20 of the softmax
}
ITEM_WEIGHTS = [
    [1.0, 2.0, 0.5, 1.5, 3.0, 1.0],
    [0.5, 2.5, 1.0, 1.0, 1.0, 1.0],
    [1.0, 2.0, 3.0, 1.0, 1.0, 1.0],
    [2.0, 1.0, 1.0, 0.25, 1.0, 1.0],
    [4.0, 1.0, 1.0, 1.0, 1.0, 1.0],
]
DRAWS = 3


def make_noise(queries, items):
    """[draws, query, item], between −1.5 and 1.5."""
    return [
        [[round(1.5 * math.sin(1 + 7 * d + 3 * q + 2 * i), 2) for i in range(items)] for q in range(queries)]
        for d in range(DRAWS)
    ]


def fill(rows, value, width=None):
    """Rows with a value where there is padding, and more padding up to a width."""
    padded = [list(row) + [PAD] * ((width or len(row)) - len(row)) for row in rows]
    return [[value if each is PAD else float(each) for each in row] for row in padded]


def ask_tfr():
    import tensorflow as tf
    import tensorflow_ranking as tfr
    from tensorflow_ranking.python import losses_impl

    keras = tfr.keras.losses
    none = tf.keras.losses.Reduction.NONE

    def ask(kind, case, weights=None, width=None, **options):
        scores, labels = zip(*CASES[case], strict=True)
        y = tf.constant(fill(labels, -1.0, width))
        s = tf.constant(fill(scores, 0.0, width))
        loss = kind(reduction=none, **options)
        w = None if weights is None else tf.constant(weights)
        if w is not None and kind is keras.SoftmaxLoss:
            losses, totals = loss._loss.compute_per_list(y, s, w)
            values = losses * totals
        else:
            values = loss(y, s, sample_weight=w)
        return [round(float(tf.reduce_sum(value)), 6) for value in values]

    def ask_neural(case):
        scores, labels = zip(*CASES[case], strict=True)
        loss = losses_impl.NeuralSortNDCGLoss(name="neural")
        values, weights = loss.compute_unreduced_loss(
            tf.constant(fill(labels, -1.0)), tf.constant(fill(scores, 0.0))
        )
        return [round(float(value), 6) for value in tf.reshape(values * weights, [-1])]

    def ask_gumbel(case, temperature):
        queries, items = len(CASES[case]), len(CASES[case][0][0])
        noise = tf.transpose(tf.constant(make_noise(queries, items)), [1, 0, 2])
        losses_impl._sample_gumbel = lambda shape, seed=None: noise
        values = ask(keras.GumbelApproxNDCGLoss, case, sample_size=DRAWS, gumbel_temperature=temperature)
        return [round(sum(values[q * DRAWS : (q + 1) * DRAWS]) / DRAWS, 6) for q in range(queries)]

    def ask_unfloored(case):
        """ApproxNDCG of the same noised scores without the sampler's log(softmax + 1e-20)."""
        values = []
        for draw in make_noise(len(CASES[case]), len(CASES[case][0][0])):
            rows = [
                [s + g for s, g in zip(row, noise, strict=True)]
                for (row, _), noise in zip(CASES[case], draw, strict=True)
            ]
            labels = [labels for _, labels in CASES[case]]
            loss = keras.ApproxNDCGLoss(reduction=none)
            values.append(
                [
                    float(tf.reduce_sum(value))
                    for value in loss(tf.constant(fill(labels, -1.0)), tf.constant(rows))
                ]
            )
        return [round(sum(each) / DRAWS, 6) for each in zip(*values, strict=True)]

    logistic = functools.partial(ask, keras.PairwiseLogisticLoss)
    ndcg, ndcg_v2 = keras.NDCGLambdaWeight, keras.NDCGLambdaWeightV2
    drawn = sorted({tuple(ask(keras.ListMLELoss, "graded")) for _ in range(60)})
    return {
        "mean_squared_error": ask(keras.MeanSquaredLoss, "graded"),
        "mean_squared_error weighted": ask(keras.MeanSquaredLoss, "graded", ITEM_WEIGHTS),
        "sigmoid": ask(keras.SigmoidCrossEntropyLoss, "shares"),
        "logistic": logistic("graded"),
        "logistic weighted": logistic("graded", ITEM_WEIGHTS),
        "hinge": ask(keras.PairwiseHingeLoss, "graded"),
        "soft_zero_one": ask(keras.PairwiseSoftZeroOneLoss, "graded"),
        "softmax": ask(keras.SoftmaxLoss, "graded"),
        "softmax weighted": ask(keras.SoftmaxLoss, "graded", ITEM_WEIGHTS),
        "listmle untied": ask(keras.ListMLELoss, "untied"),
        "listmle tied, lowest": [min(each) for each in zip(*drawn, strict=True)],
        "listmle tied, highest": [max(each) for each in zip(*drawn, strict=True)],
        "approx_ndcg": ask(keras.ApproxNDCGLoss, "graded"),
        "approx_ndcg, temperature 1": ask(keras.ApproxNDCGLoss, "graded", temperature=1.0),
        "approx_ndcg weighted": ask(keras.ApproxNDCGLoss, "graded", ITEM_WEIGHTS),
        "approx_mrr": ask(keras.ApproxMRRLoss, "graded"),
        "approx_mrr weighted": ask(keras.ApproxMRRLoss, "graded", ITEM_WEIGHTS),
        "neural_ndcg": ask_neural("graded"),
        "lambdarank": logistic("graded", lambda_weight=ndcg(smooth_fraction=1.0)),
        "lambdarank, 10 places": logistic("graded", width=10, lambda_weight=ndcg(smooth_fraction=1.0)),
        "lambdarank@3": logistic("graded", lambda_weight=ndcg(topn=3, smooth_fraction=1.0)),
        "ndcg_loss2": logistic("graded", lambda_weight=ndcg(smooth_fraction=0.0)),
        "ndcg_loss2@3": logistic("graded", lambda_weight=ndcg_v2(topn=3)),
        "ndcg_loss2pp": logistic("graded", lambda_weight=ndcg(smooth_fraction=1.0 / 11.0)),
        "stochastic approx_ndcg": ask_gumbel("graded", 1.0),
        "stochastic approx_ndcg, temperature 0.5": ask_gumbel("graded", 0.5),
        "stochastic approx_ndcg, extreme": ask_gumbel("extreme", 1.0),
        "stochastic approx_ndcg, extreme, no floor": ask_unfloored("extreme"),
    }


def ask_rax():
    import jax
    import jax.numpy as jnp
    import rax

    def ask(loss, case, width=None, weights=None, noise=None, **options):
        scores, labels = zip(*CASES[case], strict=True)
        where = [[each is not PAD for each in row] + [False] * ((width or 0) - len(row)) for row in labels]
        if weights is not None:
            options["weights"] = jnp.array(weights)
        if noise is not None:
            jax.random.gumbel = lambda key, shape: jnp.array(noise)
            options["key"] = jax.random.PRNGKey(0)
        values = loss(
            jnp.array(fill(scores, 0.0, width)),
            jnp.array(fill(labels, 0.0, width)),
            where=jnp.array(where),
            reduce_fn=None,
            **options,
        )
        values = values if noise is None else values.mean(0)
        return [round(float(value.sum()), 6) for value in values]

    def lambdas(weight, width=None, **options):
        weight = functools.partial(weight, normalize=True, **options)
        return ask(rax.pairwise_logistic_loss, "graded", width, lambdaweight_fn=weight)

    def gumbel(loss, case, beta=1.0, smoothing=None):
        noise = make_noise(len(CASES[case]), len(CASES[case][0][0]))
        noisy = rax.gumbel_t12n(loss, samples=DRAWS, beta=beta, smoothing_factor=smoothing)
        return ask(noisy, case, noise=noise)

    approx_ndcg = rax.approx_t12n(rax.ndcg_metric, temperature=0.1)
    approx_mrr = rax.approx_t12n(rax.mrr_metric, temperature=0.1)
    return {
        "mean_squared_error": ask(rax.pointwise_mse_loss, "graded"),
        "mean_squared_error weighted": ask(rax.pointwise_mse_loss, "graded", weights=ITEM_WEIGHTS),
        "sigmoid": ask(rax.pointwise_sigmoid_loss, "shares"),
        "sigmoid graded": ask(rax.pointwise_sigmoid_loss, "graded"),
        "logistic": ask(rax.pairwise_logistic_loss, "graded"),
        "logistic weighted": ask(rax.pairwise_logistic_loss, "graded", weights=ITEM_WEIGHTS),
        "hinge": ask(rax.pairwise_hinge_loss, "graded"),
        "soft_zero_one": ask(rax.pairwise_soft_zero_one_loss, "graded"),
        "softmax": ask(rax.softmax_loss, "graded"),
        "softmax weighted": ask(rax.softmax_loss, "graded", weights=ITEM_WEIGHTS),
        "listnet": ask(rax.softmax_loss, "graded", label_fn=lambda a, where: jax.nn.softmax(a, where=where)),
        "listmle untied": ask(rax.listmle_loss, "untied"),
        "listmle tied": ask(rax.listmle_loss, "graded"),
        "approx_ndcg": ask(approx_ndcg, "graded"),
        "approx_ndcg, temperature 1": ask(rax.approx_t12n(rax.ndcg_metric, temperature=1.0), "graded"),
        "approx_ndcg@3, apart": ask(approx_ndcg, "apart", topn=3),
        "approx_ndcg@3, apart, 10 places": ask(approx_ndcg, "apart", 10, topn=3),
        "approx_mrr first": ask(approx_mrr, "graded"),
        "lambdarank": lambdas(rax.dcg_lambdaweight),
        "lambdarank, 10 places": lambdas(rax.dcg_lambdaweight, width=10),
        "lambdarank@3": lambdas(rax.dcg_lambdaweight, topn=3),
        "ndcg_loss2": lambdas(rax.dcg2_lambdaweight),
        "ndcg_loss2@3": lambdas(rax.dcg2_lambdaweight, topn=3),
        "stochastic approx_ndcg": gumbel(approx_ndcg, "graded"),
        "stochastic approx_ndcg, beta 0.5": gumbel(approx_ndcg, "graded", 0.5),
        "stochastic softmax, beta 0.5": gumbel(rax.softmax_loss, "graded", 0.5),
        "stochastic approx_ndcg, extreme": gumbel(approx_ndcg, "extreme", smoothing=1e-20),
        "stochastic approx_ndcg, extreme, no floor": gumbel(approx_ndcg, "extreme"),
    }


if __name__ == "__main__":
    pprint.pprint({"tfr": ask_tfr, "rax": ask_rax}[sys.argv[1]](), sort_dicts=False, width=110)
