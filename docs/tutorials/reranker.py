"""A re-ranker in ten lines, for a shop and for places: from two log files to a re-ranked live request."""

import json

import placings as pg
from placings.places import build_index, read_geonames
from placings.rerank import list_requests
from placings.simulate import make_shop_actions, simulate_log

# The logs are simulated here; yours come from your collector. A shop's: what was searched and shown, and what
# was clicked, put into the cart and bought. Places: people type into a search box, and an engine that knows
# the towns of Germany answers.

make_shop_actions(pg.make_shop_log(28, searches=60, random_state=0)).write("shop")
towns = [place for place in read_geonames(15000) if place.country == "Germany"]
build_index(towns, "towns.db")
simulate_log(towns, pg.open_engine("sqlite:towns.db"), 1500, k=20, random_state=0).write("towns")

# 1. The shop, in ten lines.
#
# A request holds what is known of the search and all fields of its items, as your engine gives them; here it
# is the first search of the test. guard=False takes the model's order for every search: of a log as small as
# this one a guard would leave nearly all of them to the engine, since nothing is proved yet.

log = pg.join_logs("shop/searches.parquet", "shop/actions.parquet")
train, valid, test = log.split(0.6, 0.2, 0.2, by="time")
reranker = pg.Reranker(features="shop", ranker="lightgbm", guard=False).fit(train, valid=valid)
print(reranker.evaluate(test).table())
reranker.save("shop-reranker")
request = list_requests(test.rows)[0]
answer = pg.load("shop-reranker").rerank(request)
print("The new order:", (answer.order + 1).tolist())

# 2. Places, in ten lines.
#
# Of the lists that people see while they type, most are not clicked. They stay in the log as negatives: a
# list that held what its session clicked later is learned from.

log = pg.join_logs("towns/searches.parquet", "towns/actions.parquet", unsuccessful="negatives")
train, valid, test = log.split(0.6, 0.2, 0.2, by="time")
reranker = pg.Reranker(features="places", ranker="lightgbm", guard=False).fit(train, valid=valid)
print(reranker.evaluate(test).table())
reranker.save("towns-reranker")
engine = pg.load("towns-reranker").wrap(pg.open_engine("sqlite:towns.db"))
for hit in engine.search("frei", focus=(48.0, 7.85), k=3):
    print(f"{hit.name} was number {hit.rank}")

# 3. Any engine.
#
# A file of answers is an engine, too: a line for each query, with the hits as your own engine gives them.
# What a request lacks is told.

hits = [{"item_id": "a", "price": 9.5, "rating": 4.0}, {"item_id": "b", "price": 12.0, "rating": 4.8}]
with open("hits.jsonl", "w") as file:
    file.write(json.dumps({"query": "red lamp", "hits": hits}) + "\n")
found = pg.open_engine("hits:hits.jsonl").search("Red lamp")
answer = pg.load("shop-reranker").rerank(pg.Request.of_hits("Red lamp", found, platform="app"))
print([found[row].id for row in answer.order], "without", len(answer.missing), "of the fields")
