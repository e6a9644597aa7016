"""A re-ranker goes live: served over HTTP, clicked on, exported, learned from, replaced by the next one."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import placings as pg
from placings.places import build_index, read_geonames
from placings.simulate import simulate_log

# 1. A first re-ranker, from a log of the bare engine.
#
# The people are simulated; your own log takes their place. How they are learned from is the tutorial "A
# re-ranker in ten lines".

towns = [place for place in read_geonames(15000) if place.country == "Germany"]
build_index(towns, "towns.db")
simulate_log(towns, pg.open_engine("sqlite:towns.db"), 400, k=20, random_state=0).write("towns")
log = pg.join_logs("towns/searches.parquet", "towns/actions.parquet", unsuccessful="negatives")
reranker = pg.Reranker(features="places", ranker="ridge", guard=False).fit(log)
first = reranker.save("models/first")

# 2. The service, on free ports of this machine.
#
# At a terminal it is one line: placings serve --model models/first --engine sqlite:towns.db. The token is
# for operators, who may exchange the model.

TOKEN = "a-token-of-your-own-choice"
placings = Path(sys.executable).with_name("placings")
service = subprocess.Popen(
    [placings, "serve", "--model", "models/first", "--engine", "sqlite:towns.db", "--data", "serve-data",
     "--port", "0", "--admin-port", "0", "--model-root", "models", "--budget-ms", "10000"],
    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    env={**os.environ, "PLACINGS_ADMIN_TOKEN": TOKEN},
)  # fmt: skip
url = service.stdout.readline().split()[2]
admin = service.stdout.readline().split()[2].removesuffix("/metrics")


def ask(address, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, headers)) as reply:
        return reply.status, json.load(reply)


# 3. People search, as a client of Pelias does, and click.
#
# Each list has a signed id. A click brings it back, under an id of its own: sent twice, it counts once. The
# answer 202 means that the click is on the disk.

person = {"X-Placings-User": "ann", "X-Placings-Session": "monday"}
for number, text in enumerate(["frei", "karls", "frei"]):
    _, found = ask(f"{url}/v1/autocomplete?text={text}&focus.point.lat=48.0&focus.point.lon=7.85", **person)
    about, best = found["geocoding"]["placings"], found["features"][0]["properties"]
    click = {
        "event_id": f"click-{number}", "search_id": about["search_id"], "item_id": best["id"],
        "action": "click", "position": 1,
    }  # fmt: skip
    kind = {"Content-Type": "application/json"}
    status, receipt = ask(f"{url}/v1/feedback", click, **kind, **person)
    again, known = ask(f"{url}/v1/feedback", click, **kind, **person)
    print(f"{text}: {best['name']}; click {status}, new {receipt['new']}; sent again: new {known['new']}")

# 4. What was served is the next log.

subprocess.run([placings, "serve", "export", "--data", "serve-data", "--out", "week", "--json"], check=True,
               stdout=subprocess.DEVNULL)  # fmt: skip
week = pg.join_logs("week/searches.parquet", "week/actions.parquet")
print(f"exported: {week.n_searches} searches, {int((week.rows['label'] > 0).sum())} clicks")

# 5. The next model, on all workers or on none, and one step back.
#
# A week of three searches teaches nothing, so the next model here is one with another pool.

second = pg.Reranker(features="places", ranker="ridge", guard=False, pool=20).fit(log).save("models/second")
operator = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
status, _ = ask(f"{admin}/v1/reload", {"model": "models/second", "digest": second}, **operator)
served = ask(f"{url}/v1/autocomplete?text=frei")[1]["geocoding"]["placings"]["model"]
print(f"reload {status}: the second model answers: {served == second}")
status, _ = ask(f"{admin}/v1/back", {}, **operator)
served = ask(f"{url}/v1/autocomplete?text=frei")[1]["geocoding"]["placings"]["model"]
print(f"back {status}: the first model answers: {served == first}")

# 6. It leaves when it is told to, and has written everything.

service.terminate()
print("exit code", service.wait())
