"""One ranker for whom the data decide: search, report, save, load, compare."""

# 1. Data.
#
# A made family: 200 queries to learn from, 1,000 others to judge on. Its truth is partly a sum of effects of
# single features, which a linear ranker finds, and partly interactions, which trees find.

import placings as pg
from placings.simulate import FAMILIES, make_family

drawn = make_family("dev05", random_state=0)
print("made data:", FAMILIES["dev05"].about)

# 2. Search.
#
# With AutoRanker(budget="10m") the clock ends the search. Here a number of steps ends it, so that this page
# prints the same each time. A step fits one candidate without one of five folds and judges it on that fold.
# `kinds` keeps it short: without it CatBoost, XGBoost and networks are tried, too.

auto = pg.AutoRanker(steps=13, kinds=["linear", "lightgbm"], random_state=0).fit(drawn.train)

# 3. Who was tried.
#
# auto.report() prints this table with the seconds that each candidate took, which differ from run to run; so
# the table is printed here without them. All were tried on the first fold, the best three on two more; each
# kind is among these three. A mean over one fold is not to be compared with a mean over three.

print(f"\n{'tried':<28}{'folds':>5}{'ndcg@10':>9}{'weight':>8}")
for each in auto.told_["tried"]:
    print(f"{each['name']:<28}{each['folds']:>5}{each['mean']:>9.3f}{each['weight']:>8.2f}")
print(f"\n{auto.steps_} steps; {len(auto.models_)} models score each row")

# 4. Save and load.
#
# One folder holds all models. Loaded, it gives the same scores and the same report.

digest = auto.save("auto")
loaded = pg.load("auto", digest=digest)
assert loaded.report() == auto.report()

# 5. Compare.
#
# Against a ridge over quantile_normal and LightGBM as they are, on queries that none of them saw. Neither was
# tuned, and this is one draw of one family: it shows how to compare, not who wins in general.

rankers = {
    "ridge": pg.LinearRanker("ridge", transform="quantile_normal").fit(drawn.train),
    "LightGBM": pg.LightGBMRanker(random_state=0).fit(drawn.train),
    "auto": loaded,
}
print()
print(pg.compare(rankers, drawn.test, ["ndcg@10", "mrr"], baseline="LightGBM"))

# 6. What the blend adds.
#
# Each member scores by itself, too: `members_` has them by name, the heaviest first. The weights were chosen
# on 120 held-out queries, so the blend can come out below its best member. Here it does, by a little.

print("\nndcg@10 of the members on the same queries")
for name, member in loaded.members_.items():
    judged = pg.evaluate(member.predict(drawn.test), drawn.test, ["ndcg@10"])
    print(f"  {name:<28}{judged['ndcg@10']:.3f}  share {loaded.shares_[name]:.2f}")
