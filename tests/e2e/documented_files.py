"""The files that documented commands name, small and generated: one function a kind, all into a folder."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from time import time

import numpy as np
import pandas as pd

import placings as pg
from placings.places.engines.sqlite import SqliteEngine, build_index
from placings.places.place import Place
from placings.serve.event_store import Event, EventStore, ShownList
from placings.simulate.places_log import simulate_log
from placings.simulate.shop_log import Outage, make_shop_log, write_shop_log

TOWNS = {
    "Karlsruhe": (49.0, 8.4, 300_000),
    "Ettlingen": (48.94, 8.41, 39_000),
    "Durlach": (49.0, 8.47, 30_000),
}
NAMES = (
    "Hauptbahnhof",
    "Marktplatz",
    "Rathaus",
    "Schloßplatz",
    "Zoo",
    "Lindenstraße",
    "Kaiserstraße",
    "Hauptstraße",
)


def make_files(folder: Path) -> None:
    """Everything that README.md, CONTRIBUTING.md and docs/ name; a page that needs less ignores the rest."""
    write_letor(folder)
    write_collections(folder)
    write_models(folder)
    write_events(folder)
    write_places(folder)
    write_imports(folder)
    write_served(folder / "serve-data")
    write_swapped(folder / "served_rows.parquet")
    write_demo(folder / "out/demo")


def write_demo(folder: Path) -> None:
    """What `make demo` leaves: an index, a re-ranker, and a log with past_clicks dark on android."""
    folder.mkdir(parents=True)
    shutil.copy(folder.parents[1] / "places.db", folder / "places.db")
    rows = pd.read_parquet(folder.parents[1] / "rows.parquet")
    pg.Reranker(features="places", ranker="ridge", guard=False).fit(rows).save(folder / "reranker")
    numbers = np.arange(30 * 60)
    days, platforms = numbers // 60, np.array(["android", "ios", "web"])[numbers % 3]
    past = np.where((days >= 23) & (platforms == "android"), np.nan, 1.0)
    when = pd.Timestamp("2024-06-01") + pd.to_timedelta(24 * days + numbers % 24, unit="h")
    columns = {"search_id": numbers, "time": when, "platform": platforms, "past_clicks": past, "score": 1.0}
    pd.DataFrame(columns).to_parquet(folder / "events.parquet", index=False)


def write_served(folder: Path) -> None:
    """What `placings serve` leaves: lists of two arms, three days ago, and some clicks."""
    start = time() - 3 * 86_400
    with EventStore(folder) as store:
        for number in range(120):
            search, user, arm = f"search-{number}", f"user-{number}", ("control", "new")[number % 2]
            results = [{"item_id": item, "position": place + 1} for place, item in enumerate("abc")]
            body = {
                "experiment": "spring", "arms": "control=0.5:engine new=0.5:model", "arm": arm,
                "query": "karlsruhe", "swapped": 0, "swap_probability": 0.0, "results": results,
            }  # fmt: skip
            store.note(ShownList(search, body, start + number, user))
            if number % 3:
                click = {"item_id": "b", "action": "click"}
                store.add([Event(f"event-{number}", search, click, start + number + 5, user)])


def write_swapped(path: Path) -> None:
    """Joined rows of a service that explores: lists of three, in half of which two neighbours are swapped."""
    rng = np.random.default_rng(0)
    lists = []
    for number in range(600):
        items, chance, upper = (
            ["a", "b", "c"],
            [0.75, 0.5, 0.75],
            int(rng.integers(1, 3) * rng.integers(0, 2)),
        )
        if upper:
            items[upper - 1], items[upper] = items[upper], items[upper - 1]
            chance[upper - 1] = chance[upper] = 0.25
        clicked = rng.random(3) < np.array([0.6, 0.3, 0.2])
        lists.append(
            pd.DataFrame(
                {
                    "search_id": f"search-{number}", "session_id": f"session-{number}", "query": "karlsruhe",
                    "item_id": items, "position": [1, 2, 3], "label": clicked.astype(float),
                    "shown_probability": chance, "swapped": upper,
                }
            )
        )  # fmt: skip
    pd.concat(lists, ignore_index=True).to_parquet(path)


def draw(queries: int, features: int, seed: int) -> pg.RankingData:
    """Made rows; another seed has other query ids, as the parts of a collection have."""
    data = pg.make_ranking(queries, n_features=features, mean_size=8, random_state=seed).data
    return data.replace(qids=data.qids + 1000 * seed)


def write_letor(folder: Path) -> None:
    for seed, name in enumerate(("train", "vali", "test")):
        pg.write(draw(24, 6, seed), folder / f"{name}.txt")
    pg.write(draw(24, 6, 0), folder / "train.txt.gz")
    whole = draw(24, 6, 3)
    pg.write(whole[:12], folder / "part-1.txt")
    pg.write(whole[12:], folder / "part-2.txt")
    (folder / "mslr_sample").mkdir()
    pg.write(draw(24, 136, 0), folder / "mslr_sample" / "train.txt.gz")


def write_collections(folder: Path) -> None:
    """Folders in the layout of docs/collections.md, a few queries in each file."""
    for number in range(1, 6):
        for name in ("mq2008", "MQ2008"):
            (folder / name).mkdir(exist_ok=True)
            pg.write(draw(6, 46, number), folder / name / f"S{number}.txt")
        (folder / "ohsumed/Feature-min").mkdir(parents=True, exist_ok=True)
        pg.write(draw(6, 45, number), folder / f"ohsumed/Feature-min/S{number}.txt")
        (folder / f"MSLR-WEB30K/Fold{number}").mkdir(parents=True)
        for seed, split in enumerate(("train", "vali", "test")):
            pg.write(draw(8, 136, seed), folder / f"MSLR-WEB30K/Fold{number}/{split}.txt")
    (folder / "istella").mkdir()
    for seed, split in enumerate(("train", "test")):
        pg.write(draw(12, 220, seed), folder / f"istella/{split}.txt")


def write_models(folder: Path) -> None:
    train, test = pg.read(folder / "train.txt"), pg.read(folder / "test.txt")
    trees = pg.LightGBMRanker(rounds=5, random_state=0, n_jobs=1).fit(train)
    linear = pg.LinearRanker("hinge").fit(train)
    for name in ("first", "new", "lgbm"):
        trees.save(folder / "runs" / name / "model")
    for name in ("old", "svm"):
        linear.save(folder / "runs" / name / "model")
    neural = pg.NeuralRanker(hidden=[4], steps=3, random_state=0, device="cpu").fit(train)
    neural.save(folder / "runs/neural/model")
    trees.booster_.save_model(str(folder / "lightgbm.txt"))
    pg.XGBoostRanker(rounds=3, random_state=0, n_jobs=1).fit(train).booster_.save_model(folder / "ranker.ubj")
    (folder / "feature_names.txt").write_text("".join(f"{name}\n" for name in train.feature_names))
    for seed, name in enumerate(("scores", "engine", "ours")):
        scores = np.random.default_rng(seed).random(test.n_rows)
        np.savetxt(folder / f"{name}.csv", scores, header="score", comments="")


def write_events(folder: Path) -> None:
    """A shop's log by day (ratings dark in the east from 25 February), a model's features, judged rows."""
    outage = Outage("east", ("rating", "review_count"), day=55, share=0.6)
    log = make_shop_log(60, searches=600, outage=outage, random_state=0)
    write_shop_log(log, folder / "logs")
    rng = np.random.default_rng(0)
    searches = np.repeat(np.arange(400), 4)
    events = {"search_id": searches, "region": np.where(searches % 2, "north", "south")}
    events["time"] = pd.Timestamp("2024-02-01") + pd.to_timedelta(searches, unit="h")
    values = {f"f{number}": rng.random(len(searches)) for number in range(1, 7)}
    pd.DataFrame({**events, **values, "f1": 0.0}).to_parquet(folder / "events.parquet", index=False)
    healthy = make_shop_log(60, searches=600, random_state=0).to_pandas()
    kept = healthy[["search_id", "region", *log.features]].assign(label=healthy["click"].astype(float))
    last = healthy["time"] >= pd.Timestamp("2024-02-25")
    kept[last].to_parquet(folder / "train.parquet", index=False)
    kept[last & (healthy["search_id"] % 30 == 0)].to_parquet(folder / "judged.parquet", index=False)
    data = pg.read(folder / "judged.parquet", qid="search_id", label="label")
    pg.LightGBMRanker(rounds=5, random_state=0, n_jobs=1).fit(data).save(folder / "run/model")


def write_places(folder: Path) -> None:
    places = []
    for town, (lat, lon, people) in TOWNS.items():
        places.append(Place(f"{town}", town, lat, lon, "locality", country="Germany", weight=people))
        for number in range(40):
            name, kind = (
                f"{NAMES[number % 8]} {number // 8 or ''}".strip(),
                "station" if number == 0 else "stop",
            )
            at = (lat + 0.002 * number, lon - 0.001 * number)
            places.append(Place(f"{town}{number}", name, *at, kind, town, weight=float(100 - number)))
    fields = ("id", "name", "lat", "lon", "type", "locality", "weight")
    lines = "".join(json.dumps({name: getattr(place, name) for name in fields}) + "\n" for place in places)
    for name in ("places", "places_karlsruhe"):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(lines)
    for name in ("places", "ka", "karlsruhe", "cities"):
        build_index(places, folder / f"{name}.db")
    log = simulate_log(places, SqliteEngine(folder / "places.db"), 400, k=20, random_state=0)
    log.write(folder)
    rows = log.to_rows(unsuccessful="negatives")
    for name in ("rows", "test", "later"):
        rows.to_parquet(folder / f"{name}.parquet", index=False)
    hits = [{"item_id": "a", "price": 9.5}, {"item_id": "b", "price": 12.0}]
    (folder / "hits.jsonl").write_text(json.dumps({"query": "red lamp", "hits": hits}) + "\n")


def write_imports(folder: Path) -> None:
    """Logs and judgements from elsewhere, as docs/engines_servers.md shows them."""
    query = {
        "query_id": "q1",
        "user_query": "red shoes",
        "client_id": "c",
        "query_response_hit_ids": ["a", "b"],
    }
    query["timestamp"] = "2024-11-07T03:09:29.510Z"
    click = {"action_name": "click", "query_id": "q1", "session_id": "s", "timestamp": 1730948975000}
    click["event_attributes"] = {"object": {"object_id": "b"}, "position": {"ordinal": 2}}
    (folder / "ubi_queries.ndjson").write_text(json.dumps(query) + "\n")
    (folder / "ubi_events.ndjson").write_text(json.dumps(click) + "\n")
    shown = {"sid": 7, "ts": 1714550400000, "q": "lamp", "products": ["a", "b"]}
    done = {"sid": 7, "sku": "b", "at": 1714550409, "what": "click"}
    (folder / "shown.jsonl").write_text(json.dumps(shown) + '\n{"sid": 8, "ts": 17145')
    (folder / "done.jsonl").write_text(json.dumps(done) + "\n")
    (folder / "shown.csv").write_text("sid,sku,clicked\n7,a,0\n7,b,1\n7,a,0\n8,c,\n")
    ranking = {"event": "ranking", "id": "r", "timestamp": "1599391467000", "user": "u", "session": "s"}
    ranking |= {"fields": [{"name": "query", "value": "cat"}], "items": [{"id": "a"}, {"id": "b"}]}
    click_event = {"event": "interaction", "id": "i", "ranking": "r", "timestamp": "1599391470000"}
    item = {"event": "item", "id": "e", "timestamp": "1599391460000", "item": "a"}
    events = [
        {**item, "fields": [{"name": "price", "value": 3}]}, ranking,
        {**click_event, "type": "click", "item": "b"},
    ]  # fmt: skip
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (folder / "judgements.csv").write_text("query,docid,rating\nred shoes,a,3\nred shoes,b,1\n")
    (folder / "qrels.txt").write_text("1 0 a 2\n1 0 b 0\n")
    (folder / "bm25.run").write_text("1 Q0 a 1 3.5 bm25\n1 Q0 b 2 1.5 bm25\n")
    (folder / "topics.tsv").write_text("1\tred shoes\n")
