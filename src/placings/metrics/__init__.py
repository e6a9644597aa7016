"""How good a ranking is: one value for each query, every convention a keyword."""

from placings.metrics.gain import dcg, err, ndcg
from placings.metrics.names import METRICS, Metric, measure, metric
from placings.metrics.rank import (
    arp,
    average_precision,
    hit,
    kendall_tau,
    mrr,
    precision,
    rank_of_first_relevant,
    recall,
)

__all__ = [
    "ndcg",
    "dcg",
    "err",
    "mrr",
    "average_precision",
    "precision",
    "recall",
    "hit",
    "arp",
    "kendall_tau",
    "rank_of_first_relevant",
    "measure",
    "metric",
    "Metric",
    "METRICS",
]
