"""A re-ranker in ten lines, for a shop and for places: from two log files to a re-ranked live request."""

import json

import placings as pg
from placings.places import Place, build_index
from placings.simulate import make_shop_actions, simulate_log

# The logs are simulated here; yours come from your collector. A shop's: what was searched and shown, and what
# was clicked, put into the cart and bought. Places: people type into a search box, and a real engine answers.

shop = make_shop_actions(pg.make_shop_log(28, searches=60, random_state=0))
shop.write("shop")
cities = [
    Place("1", "Karlsruhe", 49.01, 8.40, "city", weight=308.0),
    Place("2", "Karlsbad", 48.91, 8.51, "town", weight=16.0),
    Place("3", "Karlskrona", 56.16, 15.59, "city", weight=36.0),
    Place("4", "Karlstad", 59.38, 13.50, "city", weight=65.0),
    Place("5", "Karlovy Vary", 50.23, 12.87, "city", weight=49.0),
    Place("6", "Kassel", 51.31, 9.48, "city", weight=204.0),
    Place("7", "Kaiserslautern", 49.44, 7.77, "city", weight=100.0),
]
build_index(cities, "places.db")
simulate_log(cities, pg.open_engine("sqlite:places.db"), 800, k=7, random_state=0).write("places")

# 1. The shop, in ten lines.

log = pg.join_logs("shop/searches.parquet", "shop/actions.parquet")
train, valid, test = log.split(0.6, 0.2, 0.2, by="time")
reranker = pg.Reranker(features="shop", ranker="lightgbm").fit(train, valid=valid)
print(reranker.evaluate(test).table())
reranker.save("shop-reranker")
items = [
    {"item_id": "a", "price": 9.5, "rating": 4.0, "reviews": 120},
    {"item_id": "b", "price": 12.0, "rating": 4.8, "reviews": 900},
]
answer = pg.load("shop-reranker").rerank({"context": {"query": "red lamp"}, "items": items})
print([items[row]["item_id"] for row in answer.order])
print(answer.say_missing())

# 2. Places, in ten lines.

log = pg.join_logs("places/searches.parquet", "places/actions.parquet", unsuccessful="negatives")
train, valid, test = log.split(0.6, 0.2, 0.2, by="time")
reranker = pg.Reranker(features="places", ranker="lightgbm").fit(train, valid=valid)
print(reranker.evaluate(test, "mrr").table())
reranker.save("places-reranker")
engine = pg.load("places-reranker").wrap(pg.open_engine("sqlite:places.db"))
for hit in engine.search("karls", focus=(49.01, 8.40), k=3):
    print(hit.name, "was", hit.rank)

# 3. Any engine.
#
# A file of answers is an engine, too: a line for each query, with the hits as your own engine gives them.

with open("hits.jsonl", "w") as file:
    file.write(json.dumps({"query": "red lamp", "hits": items}) + "\n")
wrapped = pg.load("shop-reranker").wrap(pg.open_engine("hits:hits.jsonl"))
print([hit.id for hit in wrapped.search("Red Lamp")])
