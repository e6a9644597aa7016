"""Peers behind one signature: `ask(metric, queries, k) -> mean`, with queries as (scores, labels).

An adapter raises NotImplementedError for what its library has not, and ImportError where it is missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

Queries = Sequence[tuple[Sequence[float], Sequence[float]]]
Ask = Callable[[str, Queries, int | None], float]


def ask_ir_measures(metric: str, queries: Queries, k: int | None) -> float:
    """trec_eval's measures (through pytrec_eval) and gdeval's ERR; all rows are judged and retrieved."""
    import ir_measures

    names = {
        "ndcg": "nDCG",
        "map": "AP",
        "mrr": "RR",
        "p": "P",
        "recall": "R",
        "hit": "Success",
        "err": "ERR",
    }
    if metric not in names or (k is None and metric in ("p", "recall", "hit", "err")):
        raise NotImplementedError(metric)
    measure = ir_measures.parse_measure(names[metric] if k is None else f"{names[metric]}@{k}")
    qrels = [
        ir_measures.Qrel(str(query), f"d{row:04}", int(label))
        for query, (_, labels) in enumerate(queries, 1)  # gdeval wants whole numbers
        for row, label in enumerate(labels)
    ]
    run = [
        ir_measures.ScoredDoc(str(query), f"d{row:04}", float(score))
        for query, (scores, _) in enumerate(queries, 1)
        for row, score in enumerate(scores)
    ]
    return float(ir_measures.calc_aggregate([measure], qrels, run)[measure])


def ask_pytrec_eval(metric: str, queries: Queries, k: int | None) -> float:
    import pytrec_eval

    names = {
        "ndcg": "ndcg",
        "map": "map",
        "mrr": "recip_rank",
        "p": "P",
        "recall": "recall",
        "hit": "success",
    }
    cuts = {"ndcg": "ndcg_cut", "map": "map_cut", "p": "P", "recall": "recall", "hit": "success"}
    if metric not in (names if k is None else cuts) or (k is None and metric in ("p", "recall", "hit")):
        raise NotImplementedError(metric)
    name = names[metric] if k is None else f"{cuts[metric]}.{k}"
    qrels = {
        f"q{query}": {f"d{row:04}": int(label) for row, label in enumerate(labels)}
        for query, (_, labels) in enumerate(queries)
    }
    run = {
        f"q{query}": {f"d{row:04}": float(score) for row, score in enumerate(scores)}
        for query, (scores, _) in enumerate(queries)
    }
    values = pytrec_eval.RelevanceEvaluator(qrels, {name}).evaluate(run)
    return float(np.mean([values[query][name.replace(".", "_")] for query in qrels]))


def ask_ranx(metric: str, queries: Queries, k: int | None) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranx's own, at import
        import ranx

        names = {
            "ndcg": "ndcg",
            "ndcg exp2": "ndcg_burges",
            "dcg": "dcg_burges",
            "map": "map",
            "mrr": "mrr",
            "p": "precision",
            "recall": "recall",
            "hit": "hit_rate",
        }
        if metric not in names:
            raise NotImplementedError(metric)
        name = names[metric] if k is None else f"{names[metric]}@{k}"
        qrels = {
            f"q{query}": {f"d{row:04}": int(label) for row, label in enumerate(labels)}
            for query, (_, labels) in enumerate(queries)
        }
        run = {
            f"q{query}": {f"d{row:04}": float(score) for row, score in enumerate(scores)}
            for query, (scores, _) in enumerate(queries)
        }
        return float(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), name))


def ask_sklearn(metric: str, queries: Queries, k: int | None) -> float:
    """`ndcg_score`, whose gain is the label, and `label_ranking_average_precision_score`."""
    from sklearn.metrics import dcg_score, label_ranking_average_precision_score, ndcg_score

    scores = np.array([scores for scores, _ in queries], dtype=float)
    labels = np.array([labels for _, labels in queries], dtype=float)
    match metric:
        case "ndcg":
            return float(ndcg_score(labels, scores, k=k))
        case "ndcg stable":
            return float(ndcg_score(labels, scores, k=k, ignore_ties=True))
        case "dcg":
            return float(dcg_score(np.exp2(labels) - 1, scores, k=k))
        case "map" if k is None:
            return float(label_ranking_average_precision_score((labels > 0).astype(int), scores))
    raise NotImplementedError(metric)


def ask_lightgbm(metric: str, queries: Queries, k: int | None) -> float:
    """The training metric of a booster without trees, the scores being its init_score."""
    import lightgbm

    if metric not in ("ndcg", "map"):
        raise NotImplementedError(metric)
    labels, scores, sizes = _flatten(queries)
    quiet = {"verbose": -1, "min_data_in_bin": 1, "min_data_in_leaf": 1}
    column = np.arange(len(labels), dtype=float)[:, None]
    data = lightgbm.Dataset(column, label=labels, group=sizes, init_score=scores, params=quiet)
    depth = max(sizes) if k is None else k
    settings = quiet | {"objective": "lambdarank", "metric": [metric], "eval_at": [depth]}
    return float(lightgbm.Booster(settings, data).eval_train()[0][2])


def ask_xgboost(metric: str, queries: Queries, k: int | None) -> float:
    """`Booster.eval` without trees, the scores being its base margin; `map` takes binary labels only.

    Without a cutoff XGBoost looks at 32 ranks, so all of them are asked for here.
    """
    import xgboost

    names = {"ndcg": "ndcg", "map": "map", "p": "pre"}
    if metric not in names or (metric == "p" and k is None):
        raise NotImplementedError(metric)
    labels, scores, sizes = _flatten(queries)
    data = xgboost.DMatrix(np.zeros((len(labels), 1)), label=labels, base_margin=scores)
    data.set_group(sizes)
    name = f"{names[metric]}@{max(sizes) if k is None else k}"
    booster = xgboost.train({"objective": "rank:ndcg", "eval_metric": name, "verbosity": 0}, data, 0)
    return float(booster.eval(data).rsplit(":", 1)[1])


def ask_catboost(metric: str, queries: Queries, k: int | None) -> float:
    from catboost.utils import eval_metric

    names = {
        "ndcg": "NDCG",
        "ndcg exp2": "NDCG:type=Exp",
        "map": "MAP",
        "mrr": "MRR",
        "p": "PrecisionAt",
        "recall": "RecallAt",
    }
    if metric not in names:
        raise NotImplementedError(metric)
    name = names[metric]
    if k is not None:
        name += f"{';' if ':' in name else ':'}top={k}"
    labels, scores, sizes = _flatten(queries)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return float(eval_metric(labels, scores, name, group_id=groups)[0])


def _flatten(queries: Queries) -> tuple[np.ndarray, np.ndarray, list[int]]:
    labels = np.concatenate([np.asarray(labels, dtype=float) for _, labels in queries])
    scores = np.concatenate([np.asarray(scores, dtype=float) for scores, _ in queries])
    return labels, scores, [len(labels) for _, labels in queries]


PEERS: dict[str, tuple[str, Ask]] = {
    "ir_measures": ("ir_measures", ask_ir_measures),
    "pytrec_eval": ("pytrec_eval", ask_pytrec_eval),
    "ranx": ("ranx", ask_ranx),
    "scikit-learn": ("sklearn", ask_sklearn),
    "LightGBM": ("lightgbm", ask_lightgbm),
    "XGBoost": ("xgboost", ask_xgboost),
    "CatBoost": ("catboost", ask_catboost),
}
