"""The service as a process: it is killed, told to leave, given other models; and clients of Pelias."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from recording_server import Answer, serve_answers
from served_process import ServedProcess, save_model, serve, write_hits

pytestmark = pytest.mark.slow
NONSENSE = (
    b"\0" * 1000, b"GET " + b"/" * 70_000, b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 5000,
    b"POST /v1/rerank HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
)  # fmt: skip
WAIT = 60.0  # seconds after which what should happen has not; nothing is asserted about how long it takes


def wait_for(holds: Any) -> None:
    until = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def make_event(number: int, search_id: str) -> dict[str, Any]:
    return {"event_id": f"e{number}", "search_id": search_id, "item_id": "ulm0", "action": "click"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("models")
    for number, name in enumerate(("one", "two"), 1):
        save_model(home / name, pool=10 * number)
    return home


@pytest.fixture
def served(tmp_path: Path, models: Path) -> Iterator[ServedProcess]:
    words = (
        "--workers",
        "2",
        "--engine",
        write_hits(tmp_path),
        "--model-root",
        str(models),
        "--budget-ms",
        "5000",
    )
    with serve(tmp_path, models / "one", *words) as found:
        yield found


def test_sigterm_says_not_ready_answers_what_is_under_way_and_exits_with_0(
    tmp_path: Path, models: Path
) -> None:
    words = ("--engine", write_hits(tmp_path), "--linger", "2", "--grace", "10", "--budget-ms", "5000")
    with serve(tmp_path, models / "one", *words) as served:
        search_id = served.get("/v1/search?text=ulm").json()["geocoding"]["placings"]["search_id"]
        assert served.get("/readyz").status_code == 200
        served.process.send_signal(signal.SIGTERM)
        wait_for(lambda: served.get("/readyz").status_code == 503)
        assert served.get("/v1/search?text=ulm").status_code == 200
        assert served.post("/v1/feedback", make_event(1, search_id)).json()["new"] == 1
        assert served.process.wait(WAIT) == 0
    from placings.serve.event_store import EventStore

    with EventStore(tmp_path / "data") as store:
        assert (store.count()["shown"], store.count()["events"]) == (2, 1)


def test_a_worker_that_is_killed_is_started_again_and_its_events_are_there(
    served: ServedProcess, tmp_path: Path
) -> None:
    search_id = served.get("/v1/search?text=ulm").json()["geocoding"]["placings"]["search_id"]
    assert [served.post("/v1/feedback", make_event(n, search_id)).status_code for n in range(5)] == [202] * 5
    before = served.list_workers()
    os.kill(before[0], signal.SIGKILL)
    with httpx.Client() as other:  # a connection of its own: that to the dead worker is gone
        assert other.get(f"{served.url}/v1/search?text=ulm").status_code == 200
    wait_for(lambda: len(set(served.list_workers()) - {before[0]}) == 2)
    wait_for(lambda: "started again" in served.log.read_text())
    with httpx.Client() as other:
        again = other.post(f"{served.url}/v1/feedback", json=[make_event(n, search_id) for n in range(6)])
    assert (again.json()["new"], again.json()["known"], again.json()["untrusted"]) == (1, 5, 0)


def test_a_worker_starts_again_though_its_models_folder_is_gone(tmp_path: Path, models: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(models / "one", mine)
    with serve(tmp_path, mine, "--engine", write_hits(tmp_path), "--budget-ms", "5000") as served:
        shutil.rmtree(mine)
        (worker,) = served.list_workers()
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: worker not in served.list_workers() and len(served.list_workers()) == 1)

        def answers() -> bool:
            try:
                return httpx.get(f"{served.url}/v1/search?text=ulm", timeout=30.0).status_code == 200
            except httpx.TransportError:
                return False

        wait_for(answers)


def test_models_change_under_load_without_a_dropped_request(served: ServedProcess, models: Path) -> None:
    done, statuses, digests = threading.Event(), [], set()

    def load() -> None:
        with httpx.Client(timeout=60.0) as client:
            while not done.is_set():
                found = client.get(f"{served.url}/v1/search?text=berlin")
                statuses.append(found.status_code)
                told = found.json()["geocoding"]["placings"]
                digests.add(told["model"])
                assert told["fallback"] is None

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        first = served.get("/v1/search?text=ulm").json()["geocoding"]["placings"]["model"]
        changed = served.order("/v1/reload", {"model": str(models / "two")})
        assert changed.status_code == 200, changed.text
        second = changed.json()["models"]["model"]
        now = {served.get("/v1/search?text=ulm").json()["geocoding"]["placings"]["model"] for _ in range(20)}
        assert (now, first == second) == ({second}, False)
        bad = served.order("/v1/reload", {"model": str(models / "none")})
        assert bad.status_code == 409
        assert served.order("/v1/back").json()["models"]["model"] == first
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert digests == {first, second}
    assert set(statuses) == {200}
    assert len(statuses) > 20
    metrics = served.client.get(served.admin + "/metrics").text
    answering = dict(re.findall(r'placings_model_info\{digest="(\w+)",name="model"\} ([\d.]+)', metrics))
    assert answering == {first: "1.0", second: "0.0"}
    assert "Clearing labels" not in served.log.read_text()


def test_a_damaged_model_is_refused_and_the_last_good_one_answers(
    served: ServedProcess, models: Path, tmp_path: Path
) -> None:
    first = served.get("/v1/search?text=ulm").json()["geocoding"]["placings"]["model"]
    broken = models / "broken"
    shutil.copytree(models / "two", broken)
    for path in (broken / "model").iterdir():
        if path.name != "manifest.json":
            path.write_bytes(b"\0")
    try:
        assert served.order("/v1/reload", {"model": str(broken)}).status_code == 409
    finally:
        shutil.rmtree(broken)
    assert served.get("/v1/search?text=ulm").json()["geocoding"]["placings"]["model"] == first


def test_the_first_requests_of_a_new_service_are_ordered_by_the_model(tmp_path: Path, models: Path) -> None:
    with serve(tmp_path, models / "one", "--engine", write_hits(tmp_path), "--budget-ms", "250") as served:
        told = [served.get("/v1/search?text=berlin").json()["geocoding"]["placings"] for _ in range(3)]
    assert [each["fallback"] for each in told] == [None] * 3


def test_files_are_the_owners_alone_and_the_log_has_ids_and_no_texts(
    served: ServedProcess, tmp_path: Path
) -> None:
    found = served.get("/v1/search?text=berlin", headers={"X-Placings-User": "anna"}).json()
    served.post("/v1/rerank", {"context": {"query": "geheim"}, "items": 3})
    wait_for(lambda: (tmp_path / "data" / "events.sqlite-wal").exists())
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "data").rglob("*")}
    assert {name for name, mode in modes.items() if mode} == set()
    name = found["geocoding"]["placings"]["search_id"]
    wait_for(lambda: name in served.log.read_text())  # lines are written by another thread, a moment later
    log = served.log.read_text()
    assert all(word not in log for word in ("berlin", "geheim", "anna", "token-of-the-tests"))
    assert all({"time", "level", "what"} <= set(line) for line in served.list_lines())
    environment = Path(f"/proc/{served.list_workers()[0]}/environ").read_bytes()
    assert b"token-of-the-tests" not in environment


def test_geopys_pelias_client_talks_to_us_unchanged(served: ServedProcess) -> None:
    from geopy.geocoders import Pelias

    client = Pelias(domain=served.url.removeprefix("http://"), scheme="http", timeout=30)
    one = client.geocode("berlin")
    assert one.address.startswith("Berlin ")
    assert 49.0 <= one.latitude <= 49.12
    many = client.geocode("ulm", exactly_one=False)
    assert len(many) == 10
    with pytest.raises(Exception, match="404|400"):
        client.reverse("49.0, 8.4")  # this engine is not Pelias: told so, in its shape


def test_pelias_js_talks_to_us_unchanged(served: ServedProcess) -> None:
    """pelias-js 0.0.8 from npm, in the folder that PLACINGS_PELIAS_JS names (npm install pelias-js)."""
    folder = os.environ.get("PLACINGS_PELIAS_JS", "")
    if not folder or not (Path(folder) / "node_modules" / "pelias-js").is_dir() or not shutil.which("node"):
        pytest.skip("needs node, and PLACINGS_PELIAS_JS: a folder in which pelias-js is installed")
    script = """
    const found = require('pelias-js'); const Pelias = found.default || found;
    const client = new Pelias({peliasUrl: process.argv[1]});
    Promise.all([client.search.setSearchTerm('berlin').setFocusPoint({lat: '49.0', lon: '8.4'}).execute(),
                 client.autocomplete.setSearchTerm('ulm').execute()])
      .then(all => console.log(all.map(each => each.features.length + ' ' + each.type).join(' ')))
      .catch(error => { console.error(error); process.exit(1); });
    """
    done = subprocess.run(
        ["node", "-e", script, served.url],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert done.stdout.split() == ["10", "FeatureCollection", "10", "FeatureCollection"], done.stderr


def test_an_engine_that_is_gone_is_503_and_comes_back(tmp_path: Path, models: Path) -> None:
    feature = {
        "type": "Feature", "geometry": {"type": "Point", "coordinates": [8.4, 49.0]},
        "properties": {"gid": "x:y:1", "name": "Ulm", "layer": "locality"},
    }  # fmt: skip
    with serve_answers() as pelias:
        pelias.answer({"type": "FeatureCollection", "features": [feature], "geocoding": {}})
        words = ("--engine", f"pelias+{pelias.url}", "--engine-timeout-ms", "2000")
        with serve(tmp_path, models / "one", *words) as served:
            assert served.get("/v1/search?text=ulm").json()["features"][0]["properties"]["gid"] == "x:y:1"
            assert served.get("/v1/place?ids=x:y:1").json()["features"] == [feature]
            pelias.answer(Answer(cut=True))
            statuses = [served.get("/v1/search?text=ulm").status_code for _ in range(8)]
            assert statuses == [503] * 8
            pelias.answer({"type": "FeatureCollection", "features": [feature], "geocoding": {}})
            wait_for(lambda: served.get("/v1/search?text=ulm").status_code == 200)


def test_many_kinds_of_nonsense_at_once_leave_the_service_well(served: ServedProcess) -> None:
    async def go() -> None:
        host, port = served.url.removeprefix("http://").split(":")
        for content in NONSENSE:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(content)
            writer.write_eof()
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), WAIT)
            writer.close()

    asyncio.run(go())
    assert served.get("/v1/search?text=ulm").status_code == 200
