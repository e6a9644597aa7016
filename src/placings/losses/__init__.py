"""Losses: scores, labels and a mask in, one loss a query out."""

from placings.errors import MissingExtra

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("a loss", "PyTorch", "neural") from error

from placings.losses.gumbel import draw_noise, stochastic
from placings.losses.lambdas import lambdarank_loss, ndcg_loss1, ndcg_loss2, ndcg_loss2pp
from placings.losses.listwise import (
    approx_mrr_loss,
    approx_ndcg_loss,
    listmle_loss,
    listnet_loss,
    neural_ndcg_loss,
    softmax_loss,
)
from placings.losses.names import LOSSES, Loss, find_loss
from placings.losses.pairwise import fidelity_loss, hinge_loss, logistic_loss, soft_zero_one_loss
from placings.losses.pointwise import mean_squared_error_loss, sigmoid_loss

__all__ = [
    "mean_squared_error_loss",
    "sigmoid_loss",
    "logistic_loss",
    "hinge_loss",
    "soft_zero_one_loss",
    "fidelity_loss",
    "softmax_loss",
    "listnet_loss",
    "listmle_loss",
    "approx_ndcg_loss",
    "approx_mrr_loss",
    "neural_ndcg_loss",
    "lambdarank_loss",
    "ndcg_loss1",
    "ndcg_loss2",
    "ndcg_loss2pp",
    "stochastic",
    "draw_noise",
    "find_loss",
    "Loss",
    "LOSSES",
]
