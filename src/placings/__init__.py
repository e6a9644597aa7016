"""placings: learning to rank from click log to live re-ranker.

>>> import placings as pg
>>> data = pg.make_ranking(20, random_state=0).data
>>> train, test = data.split(0.8, 0.2, random_state=0)
>>> scores = test.X[:, 0]
>>> pg.ndcg(scores, test.y, test.offsets, k=10).shape
(4,)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from placings.clicks.simulation import make_shop_log as make_shop_log
    from placings.data.concatenation import concat as concat
    from placings.data.quality import FeatureFacts as FeatureFacts
    from placings.data.quality import describe_features as describe_features
    from placings.data.ranking import RankingData as RankingData
    from placings.data.reading import read as read
    from placings.data.reading import write as write
    from placings.data.synthetic import make_ranking as make_ranking
    from placings.evaluation.comparison import compare as compare
    from placings.evaluation.contest import compare_trained as compare_trained
    from placings.evaluation.explanation import explain as explain
    from placings.evaluation.importance import permute_importance as permute_importance
    from placings.evaluation.importance import rank_importance as rank_importance
    from placings.evaluation.scoring import evaluate as evaluate
    from placings.evaluation.selection import QueryKFold as QueryKFold
    from placings.evaluation.selection import scorer as scorer
    from placings.evaluation.tuning import tune as tune
    from placings.feco.alerts import find_alerts as find_alerts
    from placings.feco.degradation import degrade as degrade
    from placings.feco.results import Coverage as Coverage
    from placings.feco.risk import estimate_risk as estimate_risk
    from placings.feco.score import coverage as coverage
    from placings.metrics import Metric as Metric
    from placings.metrics import arp as arp
    from placings.metrics import average_precision as average_precision
    from placings.metrics import dcg as dcg
    from placings.metrics import err as err
    from placings.metrics import hit as hit
    from placings.metrics import kendall_tau as kendall_tau
    from placings.metrics import measure as measure
    from placings.metrics import metric as metric
    from placings.metrics import mrr as mrr
    from placings.metrics import ndcg as ndcg
    from placings.metrics import precision as precision
    from placings.metrics import rank_of_first_relevant as rank_of_first_relevant
    from placings.metrics import recall as recall
    from placings.rankers.bundles import load as load
    from placings.rankers.cat import CatBoostRanker as CatBoostRanker
    from placings.rankers.catalogue import make_ranker as make_ranker
    from placings.rankers.lgbm import LightGBMRanker as LightGBMRanker
    from placings.rankers.linear import LinearRanker as LinearRanker
    from placings.rankers.mean import MeanRanker as MeanRanker
    from placings.rankers.neural import NeuralRanker as NeuralRanker
    from placings.rankers.original import OriginalOrder as OriginalOrder
    from placings.rankers.xgb import XGBoostRanker as XGBoostRanker

# Where each public name lives. Nothing is imported before it is used: `import placings` stays instant.
HOMES = {
    "placings.data.ranking": ("RankingData",),
    "placings.data.concatenation": ("concat",),
    "placings.data.reading": ("read", "write"),
    "placings.data.quality": ("FeatureFacts", "describe_features"),
    "placings.data.synthetic": ("make_ranking",),
    "placings.metrics": (
        "Metric", "arp", "average_precision", "dcg", "err", "hit", "kendall_tau", "measure", "metric", "mrr",
        "ndcg", "precision", "rank_of_first_relevant", "recall",
    ),
    "placings.report.result_page": ("write_result_page",),
    "placings.rankers.linear": ("LinearRanker",),
    "placings.rankers.lgbm": ("LightGBMRanker",),
    "placings.rankers.xgb": ("XGBoostRanker",),
    "placings.rankers.cat": ("CatBoostRanker",),
    "placings.rankers.neural": ("NeuralRanker",),
    "placings.rankers.mean": ("MeanRanker",),
    "placings.rankers.original": ("OriginalOrder",),
    "placings.rankers.catalogue": ("make_ranker",),
    "placings.rankers.bundles": ("load",),
    "placings.evaluation.scoring": ("evaluate",),
    "placings.evaluation.comparison": ("compare",),
    "placings.evaluation.contest": ("compare_trained",),
    "placings.evaluation.selection": ("QueryKFold", "scorer"),
    "placings.evaluation.importance": ("permute_importance", "rank_importance"),
    "placings.evaluation.explanation": ("explain",),
    "placings.evaluation.tuning": ("tune",),
    "placings.feco.score": ("coverage",),
    "placings.feco.results": ("Coverage",),
    "placings.feco.degradation": ("degrade",),
    "placings.feco.risk": ("estimate_risk",),
    "placings.feco.alerts": ("find_alerts",),
    "placings.clicks.simulation": ("make_shop_log",),
}  # fmt: skip

__all__ = ["__version__", *(name for names in HOMES.values() for name in names)]


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            value = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'placings' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
