"""From a log to a verdict: may a new re-ranker go live, before anyone sees it?"""

import numpy as np
import pandas as pd

import placings as pg
from placings.features import Number
from placings.simulate import PositionBased

# 1. A log.
#
# Yours comes from `placings serve --explore 0.5` and `placings log join`. Here people are SIMULATED: 10,000
# sessions a week look for something among 400 items. The engine's order goes by price more than by quality,
# which is what people care for. In half of the sessions two neighbours change places, and the log says with
# which probability.

rng = np.random.default_rng(0)
SESSIONS, ITEMS, RATE = 10_000, 8, 0.5
quality, price = rng.random(400), rng.random(400)
people = PositionBased(eta=0.8, certainty=0.5, noise=0.01)


def show_lists(sessions, first_day, rng):
    """One search a session: the engine's eight items, a swap of neighbours in some, and the clicks."""
    found = np.stack([rng.choice(400, ITEMS, replace=False) for _ in range(sessions)])
    worth = 0.5 * price[found] + 0.3 * quality[found] + 0.1 * rng.normal(size=found.shape)
    found = np.take_along_axis(found, np.argsort(-worth, axis=1), axis=1)
    engine = np.tile(np.arange(1, ITEMS + 1), (sessions, 1))
    swapped = np.where(rng.random(sessions) < RATE, rng.integers(1, ITEMS, sessions), 0)
    for row in np.flatnonzero(swapped):
        pair = [swapped[row] - 1, swapped[row]]
        found[row, pair], engine[row, pair] = found[row, pair[::-1]], engine[row, pair[::-1]]
    each = RATE / (
        ITEMS - 1
    )  # seven pairs of neighbours; the items at the ends are in one, the others in two
    inside = np.where((engine == 1) | (engine == ITEMS), 1, 2)
    stays = engine == np.arange(1, ITEMS + 1)
    items = found.ravel()
    relevance = np.clip(1.2 * quality[items] - 0.3, 0.0, 1.0)
    clicks = people.click_lists(relevance, np.arange(0, sessions * ITEMS + 1, ITEMS), rng)
    when = pd.Timestamp("2026-11-01") + pd.to_timedelta(
        first_day + np.sort(rng.random(sessions)) * 7, unit="D"
    )
    return pd.DataFrame(
        {
            "search_id": np.repeat([f"{first_day}-{number}" for number in range(sessions)], ITEMS),
            "session_id": np.repeat([f"{first_day}-{number}" for number in range(sessions)], ITEMS),
            "time": np.repeat(when, ITEMS),
            "platform": np.repeat(np.where(rng.random(sessions) < 0.7, "app", "web"), ITEMS),
            "item_id": [f"item {item}" for item in items],
            "position": np.tile(np.arange(1, ITEMS + 1), sessions),
            "engine_position": engine.ravel(),
            "shown_probability": np.where(stays, 1.0 - inside * each, each).ravel(),
            "swapped": np.repeat(swapped, ITEMS),
            "price": price[items],
            "quality": quality[items],
            "label": clicks.astype(float),
        }
    )


last_week = pg.ClickLog(show_lists(SESSIONS, 0, rng))
this_week = pg.ClickLog(show_lists(SESSIONS, 7, rng))

# 2. How people look, from last week's swaps.

curve = pg.estimate_propensity(last_week)
print(curve)

# 3. A candidate, learned from last week.

features = pg.FeatureSet([Number("price"), Number("quality")])
candidate = pg.Reranker(features=features, ranker="ridge", guard=False).fit(last_week)

# 4. What would it have earned this week? It was shown to nobody. Swaps reach one place up or down, and the
# candidate moves items farther, so the curve is needed: the estimate rests on a position model.

found = pg.would_have(candidate, this_week, metric="dcg@8", propensity=curve, by="platform")
print(found.table())
print(found.sentence)

# 5. A candidate that is no good: it puts what is cheap first. The gate says no.

bad = pg.would_have(
    -this_week.rows["price"].to_numpy(), this_week, metric="dcg@8", propensity=curve, by="platform"
)
print(bad.sentence)

# 6. What the same log says without a curve: only what swaps could have shown counts; the rest counts as
# unclicked, so the estimate is a lower bound.

alone = pg.would_have(candidate, this_week, metric="dcg@8", by=[])
print("\n".join(alone.say_support()))
print(alone.sentence)

# The truth, which only a simulation knows: both orders of this week, with what people would do.

rows = this_week.rows
appeal = 0.01 + 0.49 * np.clip(1.2 * rows["quality"] - 0.3, 0.0, 1.0)
value = people.examination(ITEMS) / np.log2(
    1 + np.arange(1, ITEMS + 1)
)  # of a click's place, times the looks
scores = pd.Series(candidate.score(this_week)).groupby(rows["search_id"])
places = scores.rank(ascending=False, method="first").astype(int)
truth = (appeal * (value[places - 1] - value[rows["position"] - 1])).sum() / SESSIONS
print(f"The true difference: {truth:+.4f}")
