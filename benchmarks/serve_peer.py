"""The peer of `serve_load.py`: a LightGBM model behind FastAPI, as people write it.

    python benchmarks/serve_peer.py --model out/demo/reranker --index out/demo/places.db [--workers 1]

Why it is a fair peer. It asks the same engine for as many hits, computes the same features, and scores with
the boosted trees of the same re-ranker. It does less: no network beside the trees, no guard, no arms, no
signed ids, no impressions, and feedback goes to a file that nobody syncs. It is written as the tutorials of
FastAPI and LightGBM show it: a plain `def` endpoint, which FastAPI runs in its pool of threads; a pydantic
model for what is sent; one DataFrame for a request; `Booster.predict` with its default threads. It runs under
uvicorn with uvloop and httptools and without an access log, so nothing but the way of writing is slower.
`--features request` computes the features from dicts instead, without pandas: what someone does who has
measured where the time goes.

Needs FastAPI, which the development install brings, and what `make demo` leaves.
"""

import argparse
import os
import socket
import tempfile
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODEL, INDEX, FEATURES = "PEER_MODEL", "PEER_INDEX", "PEER_FEATURES"
PORT, FEEDBACK = "PEER_PORT", "PEER_FEEDBACK"
WAYS = ("frame", "request")
SHOWN = ("lat", "lon", "type", "locality", "country")  # of a hit's fields: less than Pelias' shape has


def make_app() -> Any:
    """The application; uvicorn calls this in each of its workers."""
    import lightgbm
    import numpy as np
    import pandas as pd
    from fastapi import FastAPI
    from pydantic import BaseModel

    from placings.rerank import Request, load_reranker, open_engine

    folder = Path(os.environ[MODEL])
    reranker = load_reranker(folder)
    features, clicks = reranker.features_, reranker.clicks_
    booster = lightgbm.Booster(model_file=find_trees(folder))
    engine = open_engine(f"sqlite:{os.environ[INDEX]}", held=True)
    from_frame = os.environ[FEATURES] == "frame"
    app = FastAPI()

    class Feedback(BaseModel):
        event_id: str
        search_id: str
        item_id: str
        action: str
        position: int | None = None

    @app.get("/v1/autocomplete")
    def autocomplete(
        text: str, size: int = 10, lat: float | None = None, lon: float | None = None
    ) -> dict[str, Any]:
        focus = None if lat is None or lon is None else (lat, lon)
        hits = engine.search(text, focus, size)
        request = Request.of_hits(text, hits, focus=focus)
        items = [{**item, "past_clicks": float(clicks.get(item["item_id"], 0))} for item in request.items]
        if not items:
            return {"search_id": uuid.uuid4().hex, "results": []}
        if from_frame:
            rows = pd.DataFrame(items).assign(search_id="one", **request.context)
            rows["position"] = range(1, len(rows) + 1)
            matrix = features.transform(rows.reindex(columns=features.columns))
        else:
            matrix = features.transform_request(request.context, items)
        scores = booster.predict(matrix)
        results = []
        for row in np.argsort(-scores, kind="stable"):
            hit = hits[row]
            told = {name: hit.fields.get(name) for name in SHOWN}
            results.append({"id": hit.id, "name": hit.name, "score": float(scores[row]), **told})
        return {"search_id": uuid.uuid4().hex, "results": results}

    @app.post("/v1/feedback", status_code=202)
    def feedback(told: Feedback) -> dict[str, int]:
        with open(os.environ[FEEDBACK], "a") as file:
            file.write(told.model_dump_json() + "\n")
        return {"new": 1}

    print(f"serving on http://127.0.0.1:{os.environ[PORT]}", flush=True)  # in a moment
    return app


def find_trees(folder: Path) -> Path:
    """The text file of a re-ranker's boosted trees, alone or in a mean."""
    found = sorted((folder / "model").glob("*model.txt"))
    if not found:
        raise SystemExit(f"skipped: {folder} holds no LightGBM model.")
    return found[0]


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("out/demo/reranker"))
    parser.add_argument("--index", type=Path, default=Path("out/demo/places.db"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--features", choices=WAYS, default="frame")
    chosen = parser.parse_args()
    lacking = [name for name in ("fastapi", "uvicorn", "lightgbm") if find_spec(name) is None]
    missing = [str(path) for path in (chosen.model, chosen.index) if not path.exists()]
    if lacking or missing:
        print(f"skipped: {', '.join(lacking + missing)} is not here.")
        return
    find_trees(chosen.model)
    import uvicorn

    with tempfile.TemporaryDirectory() as folder:
        port = chosen.port or find_port()
        os.environ |= {
            MODEL: str(chosen.model), INDEX: str(chosen.index), FEATURES: chosen.features, PORT: str(port),
            FEEDBACK: str(Path(folder) / "feedback.jsonl"),
        }  # fmt: skip
        app = f"{Path(__file__).stem}:make_app"
        uvicorn.run(
            app, factory=True, port=port, workers=chosen.workers, log_level="warning", access_log=False
        )


def find_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
