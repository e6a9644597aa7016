"""A first ranking: make data, write and read them, look, split, score, judge."""

# 1. Data.
#
# No download is needed: make_ranking makes 200 queries with the character of a web search collection.
# 136 features, labels from 0 (useless) to 4 (perfect), about 120 rows a query. It also says what it hid
# in them; we look at that at the end.

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import placings as pg

made = pg.make_ranking(200, random_state=0)

# 2. Write and read.
#
# svmlight text is what most collections come in: one row a line, `label qid:7 1:0.5 2:3`. The suffix .zst
# compresses it. The format has no place for feature names, so we give them when reading. (A file
# feature_names.txt beside the data would do as well.)

pg.write(made.data, "rows.txt.zst")
data = pg.read("rows.txt.zst", feature_names=made.data.feature_names)
assert np.array_equal(data.X, made.data.X)  # float32 in, the same float32 out

print(data)

# 3. Look.
#
# A feature whose tail is long drowns the others in a linear model. Skew finds it.

facts = sorted(pg.describe_features(data), key=lambda each: -abs(each.skew))
print("\nthe three most skewed features")
for each in facts[:3]:
    print(f"  {each.name:<24} median {each.median:<8.3g} largest {each.maximum:<8.3g} skew {each.skew:.0f}")

# 4. Split, by query.
#
# Rows of one query never stand on both sides. The same random_state gives the same parts.

train, test = data.split(0.6, 0.4, random_state=0)
print(f"\n{len(train)} queries to learn from, {len(test)} to judge")

# 5. Score.
#
# A score is one number a row; higher is better. Three ways to get them:
# the best single feature (chosen on train), a ridge regression on raw features, and the same ridge on
# log1p of the features, which pulls the long tails in.


def log_scale(X):
    return np.sign(X) * np.log1p(np.abs(X))


def fit_ridge(X):
    return make_pipeline(StandardScaler(), Ridge(alpha=10.0)).fit(X, train.y)


alone = [np.nanmean(pg.ndcg(column, train.y, train.offsets, k=10)) for column in train.X.T]
best = int(np.argmax(alone))

scores = {
    f"feature {data.feature_names[best]}": test.X[:, best],
    "ridge on raw features": fit_ridge(train.X.astype(float)).predict(test.X.astype(float)),
    "ridge on log1p features": fit_ridge(log_scale(train.X.astype(float))).predict(
        log_scale(test.X.astype(float))
    ),
    "the planted signal": made.signal[np.isin(made.data.qid, test.qids)],  # no ranker can do better
}

# 6. Judge.
#
# measure ranks the rows once and gives one value a query for each metric. A query with nothing relevant has
# no NDCG: it is NaN, and nanmean leaves it out.

names = ["ndcg@1", "ndcg@10", "mrr"]
print(f"\n{'order by':<32}" + "".join(f"{name:>10}" for name in names))
for way, given in scores.items():
    values = pg.measure(names, given, test.y, test.offsets)
    print(f"{way:<32}" + "".join(f"{np.nanmean(values[name]):10.3f}" for name in names))

# 7. The rule that moves the number.
#
# Libraries differ in what a query with nothing relevant counts. placings drops it, trec_eval and scikit-learn
# count 0, LightGBM and XGBoost count 1. The ranking below is the same in all three lines.

ridge = scores["ridge on log1p features"]
empty = int(np.isnan(pg.ndcg(ridge, test.y, test.offsets)).sum())
print(f"\n{empty} of {len(test)} test queries have nothing relevant; ndcg@10 of the ridge on log1p features")
for rule in ("drop", "zero", "one"):
    values = pg.ndcg(ridge, test.y, test.offsets, k=10, empty=rule)
    print(
        f'  empty="{rule}"'.ljust(16) + f"{np.nanmean(values):.3f}  over {np.isfinite(values).sum()} queries"
    )
