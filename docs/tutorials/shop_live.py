"""A shop's search, from two log files to one live request: every step is a command of the terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def run(line):
    """Type a line at the terminal and show what it answers, but for digests, which pin every byte."""
    print(f"$ {line}", flush=True)
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print(*(text for text in done.stdout.splitlines() if "digest" not in text), sep="\n", end="\n\n")
    return done.stdout


# 1. Two files.
#
# Searches: when, what was typed, and the list shown, with what is known of each item. Actions: what was
# clicked, put into the cart, bought. Yours come from your collector, whatever it calls its columns; here four
# weeks of them are made.

run("placings log simulate-shop shop --searches 400 --broken 0.01 --seed 1 --form jsonl")

# 2. One row for each item shown, with a label; every event that was not used is counted.
#
# If your files have other names for things, say so: --map search_id=sid --map results=products. Times may be
# ISO text, seconds or milliseconds since 1970, and the lists may be plain ids.

run("placings log join shop/searches.jsonl shop/actions.jsonl --out rows.parquet")

# 3. What people type, where they click, who fails: one page, to be opened in a browser.

run("placings log explore rows.parquet --type category --out log.html")

# 4. The past to learn from, the last days to be judged by.

run("placings log split rows.parquet past.parquet future.parquet")

# 5. A re-ranker.
#
# The guard keeps the engine's order for every kind of search where the model was not shown to be as good.

run("placings rerank fit past.parquet --features shop --ranker ridge --out reranker")

# 6. Is it better than the order that people saw, and for whom?
#
# frequency parts the searches by how often their text is asked: head, torso, tail.

run("placings rerank evaluate reranker future.parquet --metrics mrr --by frequency")

# 7. One search by hand.
#
# The log itself serves as an engine that gives the lists that were shown. --request writes the same search
# down as the service takes it.

with open("shop/searches.jsonl") as file:
    search = json.loads(file.readline())
about = f"--context platform={search['platform']} --context region={search['region']}"
run(f"placings rerank search reranker '{search['query']}' --hits shop/searches.jsonl {about} "
    "-k 4 --request request.json")  # fmt: skip

# 8. Live.
#
# Your shop asks its own engine, sends the hits to the service and shows them in the order that comes back.
# Port 0 takes one that is free; the first line says which.

line = "placings serve --model reranker --engine none --data serve-data --port 0 --admin-port 0"
print(f"$ {line} &")
service = subprocess.Popen(line.split(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
os.environ["URL"] = service.stdout.readline().split()[2]
print("serving\n")
answer = subprocess.run(
    "curl -s $URL/v1/rerank -H 'Content-Type: application/json' -d @request.json",
    shell=True, capture_output=True, text=True, check=True,
)  # fmt: skip
print(f"$ {answer.args}")
reply = json.loads(answer.stdout)
print(f'{{"items": {json.dumps(reply["items"])}, "arm": "{reply["arm"]}", …}}\n')

# 9. What was clicked goes back under the list's own id, and is the next log.

click = {
    "event_id": "click-1", "search_id": reply["search_id"], "item_id": reply["items"][0],
    "action": "click", "position": 1,
}  # fmt: skip
Path("click.json").write_text(json.dumps(click))
run("curl -s $URL/v1/feedback -H 'Content-Type: application/json' -d @click.json")
service.terminate()
service.wait()
run("placings serve export --data serve-data --out week")
run("placings log join week/searches.parquet week/actions.parquet --out week.parquet | tail -n 1")
