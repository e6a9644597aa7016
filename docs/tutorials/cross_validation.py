"""Cross-validation and grid search by query: scikit-learn's own tools, with qid handed on."""

# 1. Data as arrays.
#
# 60 queries, their rows mixed as a log would have them. Nothing below needs them sorted or grouped.

import lightgbm
import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import placings as pg
from placings.evaluation import QueryKFold, scorer
from placings.rankers import LightGBMRanker, LinearRanker

data = pg.make_ranking(60, n_features=20, mean_size=20, random_state=0).data
order = np.random.default_rng(0).permutation(data.n_rows)
X, y, qid = np.asarray(data.X)[order], data.y[order], data.qid[order]
print(f"{len(qid)} rows of {len(set(qid))} queries, mixed")

# 2. Folds of whole queries, scorers from names.
#
# scikit-learn hands query ids on when its metadata routing is switched on. QueryKFold keeps each query whole;
# a scorer is made from a metric's name and gives the mean over the queries of a fold. LightGBM's own ranker
# wants group sizes, which no fold can cut to fit, and does not ask for qid: it dies in fit.

sklearn.set_config(enable_metadata_routing=True)
folds = QueryKFold(5, shuffle=True, random_state=0)
judged = {"cv": folds, "scoring": scorer("ndcg@10"), "params": {"qid": qid}, "error_score": "raise"}
try:
    cross_val_score(lightgbm.LGBMRanker(verbose=-1), X, y, **judged)
except ValueError as error:
    print("lightgbm.LGBMRanker:", error)

# 3. cross_val_score.
#
# The rankers here ask for qid by themselves.

values = cross_val_score(LightGBMRanker(rounds=30, random_state=0), X, y, **judged)
print("LightGBMRanker, ndcg@10 of 5 folds:", *(f"{value:.2f}" for value in values))

# 4. GridSearchCV, with a pipeline.
#
# Steps that know nothing of queries may stand before the ranker; qid passes them by.

pipeline = make_pipeline(StandardScaler(), LinearRanker(loss="ridge", scale=False))
search = GridSearchCV(
    pipeline,
    {"linearranker__C": [1e-4, 1e-2, 1.0]},
    cv=folds,
    scoring={"ndcg@10": scorer("ndcg@10"), "mrr": scorer("mrr", empty="zero")},
    refit="ndcg@10",
)
search.fit(X, y, qid=qid)
print("\nridge in a pipeline")
for C, ndcg, mrr in zip(
    search.cv_results_["param_linearranker__C"],
    search.cv_results_["mean_test_ndcg@10"],
    search.cv_results_["mean_test_mrr"],
    strict=True,
):
    print(f"  C={C:<7g} ndcg@10 {ndcg:.3f}   mrr {mrr:.3f}")
print("best:", search.best_params_)

# 5. Is the best better than luck?
#
# A mean of folds says nothing of chance. compare pairs the queries of a test set. Five points of NDCG on 29
# queries carry no mark: they may be luck.

train, test = data.split(0.5, 0.5, random_state=0)
methods = {
    "ridge": LinearRanker(loss="ridge").fit(train),
    "one feature": np.asarray(test.X)[:, 0],
}
print()
print(pg.compare(methods, test, ["ndcg@10"], baseline="one feature"))
sklearn.set_config(enable_metadata_routing=False)  # as it was
