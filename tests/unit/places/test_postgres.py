"""PostgresEngine against a real PostgreSQL server that these tests start on loopback and stop again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from placings.core.errors import BadInput, PlacingsWarning
from placings.places.engines.postgres import Mix, PostgresEngine, write_search
from placings.places.engines.requests import ServerFailed
from placings.places.place import Place
from placings.rerank import Engine

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'placings[places]'")

PASSWORD = "sehr-geheim"
KARLSRUHE = (49.0, 8.4)
PLACES = [
    Place("ka", "Karlsruhe Hbf", 48.9937, 8.4019, "station", "Karlsruhe", weight=30.0),
    Place("ka-m", "Marktplatz, Karlsruhe", 49.0094, 8.4039, "stop", "Karlsruhe", weight=5.0),
    Place("ka-e", "Marktplatz, Ettlingen", 48.9409, 8.4074, "stop", "Ettlingen", weight=4.0),
    Place("hh-m", "Marktplatz, Hamburg", 53.55, 9.99, "stop", "Hamburg", weight=9.0),
    Place("kd", "Durlacher Tor", 49.0085, 8.4183, "stop", "Karlsruhe", street="Durlacher Allee", weight=3.0),
    Place(
        "muc",
        "München",
        48.137,
        11.575,
        "city",
        country="DE",
        zone="Europe/Berlin",
        weight=1_500_000.0,
        names=("Munich", "Monaco di Baviera"),
        fields={"lines": [1, 2], "ü": None},
    ),
    Place("mun", "Münster", 51.96, 7.62, "city", weight=300_000.0),
]


def find_tools() -> Path | None:
    """The folder with initdb, from the path or where Debian puts it."""
    known = shutil.which("initdb")
    found = [Path(known).parent] if known else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of its own in a temporary folder, run as `postgres` where we are root."""
    tools = find_tools()
    if tools is None:
        pytest.skip("there is no PostgreSQL server on this machine (no initdb)")
    before: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("runuser") is None or "postgres" not in {user.pw_name for user in pwd.getpwall()}:
            pytest.skip("PostgreSQL refuses root, and there is no user postgres to run it as")
        before = ["runuser", "-u", "postgres", "--"]
    folder = Path(tempfile.mkdtemp(prefix="placings-pg-"))
    secret = folder / "secret"
    secret.write_text(PASSWORD)
    if before:
        shutil.chown(folder, "postgres")
        shutil.chown(secret, "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def call(tool: str, *options: str) -> None:
        command = [*before, str(tools / tool), "-D", str(folder / "data"), *options]
        # its output goes to a file: the server would keep a pipe open
        with open(folder / "calls.log", "ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd="/", timeout=60)

    try:
        call(
            "initdb",
            "-U",
            "placings",
            "-A",
            "scram-sha-256",
            f"--pwfile={secret}",
            "-E",
            "UTF8",
            "--locale=C",
        )
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        call("pg_ctl", "-w", "-l", str(folder / "server.log"), "-o", settings, "start")
        try:
            yield f"postgresql://placings:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def extensions(address: str) -> set[str]:
    with psycopg.connect(address) as connection:
        rows = connection.execute("SELECT name FROM pg_available_extensions").fetchall()
    found = {name for (name,) in rows}
    if "pg_trgm" not in found:
        pytest.skip("this PostgreSQL has no pg_trgm: its contrib package is not installed")
    return found


@pytest.fixture(scope="module")
def engine(address: str, extensions: set[str]) -> Iterator[PostgresEngine]:
    with closing(PostgresEngine(address)) as made:
        assert made.load(PLACES) == len(PLACES)
        yield made


def find_ids(engine: PostgresEngine, text: str, *more: object, **keywords: object) -> list[str]:
    return [hit.id for hit in engine.search(text, *more, **keywords)]  # type: ignore[arg-type]


def test_a_place_comes_back_as_it_was_loaded(engine: PostgresEngine) -> None:
    assert isinstance(engine, Engine)
    (first, *_) = engine.search("münchen")
    assert Place.of_hit(first) == PLACES[5]
    assert Place.of_hit(first).fields == {"lines": [1, 2], "ü": None}
    assert first.rank == 1


def test_scores_fall_along_the_list_and_ranks_count_from_one(engine: PostgresEngine) -> None:
    hits = engine.search("mark", KARLSRUHE)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("m", "muc"),  # the most popular of what begins so
        ("mü", "muc"),
        ("MUNST", "mun"),  # neither case nor accents matter
        ("monaco di", "muc"),  # another name
        ("karls", "ka"),
        ("hauptbahnhof karls", "ka"),  # any order; Hbf is Hauptbahnhof
        ("karlsruhe mark", "ka-m"),  # a word of the name and one of the locality
        ("allee durl", "kd"),  # a word of the street
        ("karlsrhue", "ka"),  # letters changed over
        ("mnchen", "muc"),  # a letter left out
        ("marktplaz ettlingen", "ka-e"),
    ],
)
def test_prefixes_other_names_words_and_typos_are_found(
    engine: PostgresEngine, text: str, first: str
) -> None:
    assert find_ids(engine, text)[0] == first


def test_an_equal_name_comes_before_a_more_popular_one_that_begins_so(
    address: str, extensions: set[str]
) -> None:
    with closing(PostgresEngine(address, table="equal")) as engine:
        engine.load(
            [Place("a", "Essen", 51.4, 7.0, weight=100.0), Place("b", "Essenbach", 48.6, 12.2, weight=200.0)]
        )
        assert find_ids(engine, "essen") == ["a", "b"]


def test_popularity_decides_without_a_focus_and_distance_with_one(engine: PostgresEngine) -> None:
    assert find_ids(engine, "marktplatz")[0] == "hh-m"
    assert find_ids(engine, "marktplatz", KARLSRUHE)[0] == "ka-m"
    assert find_ids(engine, "marktplatz", (48.94, 8.41))[0] == "ka-e"


def test_layers_and_k_bound_the_list(engine: PostgresEngine) -> None:
    assert find_ids(engine, "m", layers=["city"]) == ["muc", "mun"]
    assert {hit.fields["type"] for hit in engine.search("karlsruhe", layers=["stop", "station"])} == {
        "stop",
        "station",
    }
    assert find_ids(engine, "marktplatz", layers=["castle"]) == []
    assert find_ids(engine, "marktplatz", layers=[]) == []
    assert len(engine.search("marktplatz", k=2)) == 2


def test_earthdistance_and_plain_arithmetic_agree(address: str, extensions: set[str]) -> None:
    if "earthdistance" not in extensions:
        pytest.skip("this PostgreSQL has no earthdistance; only plain arithmetic can be tried")
    with (
        closing(PostgresEngine(address, table="with_earth", earthdistance=True)) as earth,
        closing(PostgresEngine(address, table="without_earth", earthdistance=False)) as plain,
    ):
        for engine in (earth, plain):
            engine.load(PLACES)
        for text in ("m", "mar", "marktplatz", "karlsrhue"):
            one, other = earth.search(text, KARLSRUHE), plain.search(text, KARLSRUHE)
            assert [hit.id for hit in one] == [hit.id for hit in other]
            assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], rel=1e-9)


@pytest.mark.parametrize("earthdistance", [None, False])
def test_a_near_place_is_found_by_one_letter_though_hundreds_are_more_popular(
    address: str, extensions: set[str], earthdistance: bool | None
) -> None:
    crowd = [Place(f"far{i}", f"Xanten {i}", -30.0, 140.0 + 0.01 * i, weight=50.0) for i in range(600)]
    near = Place("near", "Xaver", 0.05, -179.95)  # across the date line from the focus
    mix = Mix(distance=3.0)
    with closing(PostgresEngine(address, table="crowd", mix=mix, earthdistance=earthdistance)) as engine:
        engine.load([*crowd, near])
        assert "near" not in find_ids(engine, "x")
        assert find_ids(engine, "x", (0.0, 179.95), k=5)[0] == "near"


@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE places; --", "%", "_____", "a%b_c\\", "{places} {0}", "%(text)s", "\0", "\U0001f600",
        "mar\0kt", "x" * 10_000, "a b " * 5_000, "\\", '"', "$1", "<% k",
    ],
)  # fmt: skip
def test_no_text_becomes_syntax_or_an_error(engine: PostgresEngine, text: str) -> None:
    assert all(hit.score == hit.score for hit in engine.search(text, KARLSRUHE))
    assert find_ids(engine, "karls")[0] == "ka"


def test_only_the_length_and_the_number_of_words_shape_a_statement() -> None:
    one = write_search("haupt bahn", near=True, earth=False, fuzzy=True)
    assert one == write_search("drop table", near=True, earth=False, fuzzy=True)
    assert "haupt" not in one


def test_loading_puts_the_new_places_in_place_of_the_old_all_or_nothing(
    address: str, extensions: set[str]
) -> None:
    def break_off() -> Iterator[Place]:
        yield Place("c", "Calw", 48.7, 8.7)
        raise RuntimeError("the source broke")

    with closing(PostgresEngine(address, table="Odd; name")) as engine:
        heard: list[int] = []
        engine.load([Place("a", "Aalen", 48.8, 10.1, weight=7.0)], progress=heard.append)
        assert heard == [1]
        with pytest.raises(RuntimeError, match="the source broke"):
            engine.load(break_off())
        assert find_ids(engine, "aal") == ["a"]
        assert engine.load([Place("b", "Aach", 47.8, 8.85)]) == 1
        assert find_ids(engine, "aa") == ["b"]
        assert engine.load([]) == 0
        assert find_ids(engine, "aach") == []


def test_what_cannot_be_loaded_is_refused(address: str, extensions: set[str]) -> None:
    with closing(PostgresEngine(address, table="refused")) as engine:
        with pytest.raises(BadInput, match="places must have different ids. .*\\(id\\)=\\(a\\)"):
            engine.load([Place("a", "Aach", 47.8, 8.85), Place("a", "Aalen", 48.8, 10.1)])
        with pytest.raises(BadInput, match="Got 'a', nan, 8.85, 0.0"):
            engine.load([Place("a", "Aach", float("nan"), 8.85)])
        with pytest.raises(ServerFailed, match="has no table 'refused'. Make it with load"):
            engine.search("aach")
        engine.load([Place("n", "Nul\0l", 0.0, 0.0)])  # PostgreSQL holds no NUL: it is left out
        assert engine.search("null")[0].name == "Null"


def test_a_lost_connection_is_made_again(address: str, extensions: set[str]) -> None:
    with closing(PostgresEngine(address)) as engine:
        before = find_ids(engine, "karls")
        with psycopg.connect(address, autocommit=True) as other:
            others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
            other.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        assert find_ids(engine, "karls") == before


def test_the_address_comes_from_the_environment_and_its_password_is_never_shown(
    address: str, engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACINGS_POSTGRES", address)
    with closing(PostgresEngine()) as from_environment:
        assert find_ids(from_environment, "karls")[0] == "ka"
        assert PASSWORD not in repr(from_environment)
        assert "127.0.0.1" in repr(from_environment)
    wrong = address.replace(PASSWORD, "falsch-geraten")
    with pytest.raises(ServerFailed, match="PostgreSQL at 127.0.0.1:.* failed, OperationalError") as caught:
        PostgresEngine(wrong).search("karls")
    assert "falsch-geraten" not in str(caught.value)
    assert caught.value.__cause__ is None
    for broken in (f"postgresql://placings:{PASSWORD}@[::1/x", f"host=127.0.0.1 pass={PASSWORD}"):
        with pytest.raises(BadInput, match="the database's address cannot be read") as refused:
            PostgresEngine(broken).search("karls")
        assert PASSWORD not in str(refused.value) + repr(PostgresEngine(broken))


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailed, match=f"PostgreSQL at 127.0.0.1:{port}/db failed, OperationalError"):
            PostgresEngine(f"postgresql://127.0.0.1:{port}/db", timeout=2).search("x")
    monkeypatch.delenv("PLACINGS_POSTGRES", raising=False)
    with pytest.raises(BadInput, match="no database is named. Give an address, or set PLACINGS_POSTGRES"):
        PostgresEngine()


def test_without_the_right_to_install_pg_trgm_the_way_out_is_told(address: str, extensions: set[str]) -> None:
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        owner.execute("CREATE DATABASE bare")
    guest = address.replace(f"placings:{PASSWORD}", "guest:guest").replace("/postgres", "/bare")
    with (
        closing(PostgresEngine(guest)) as engine,
        pytest.raises(ServerFailed, match="has no pg_trgm and cannot install it: .*CREATE EXTENSION pg_trgm"),
    ):
        engine.load(PLACES)


# -- faults -----------------------------------------------------------------------------------------------


@contextmanager
def frozen(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_a_frozen_server_is_given_up_at_the_deadline_and_asked_anew(
    address: str, extensions: set[str]
) -> None:
    with closing(PostgresEngine(address, table="freezing", timeout=1.0)) as engine:
        engine.load(PLACES)
        assert find_ids(engine, "karlsruhe")[0] == "ka"
        backend = engine._connection.info.backend_pid
        with frozen(backend):
            began = time.monotonic()
            with pytest.raises(ServerFailed, match="gave no answer within 1 seconds. Is it frozen"):
                engine.search("karlsruhe")
            assert time.monotonic() - began < 10  # it hung without end before
        assert find_ids(engine, "karlsruhe")[0] == "ka"
        assert engine._connection.info.backend_pid != backend


def test_threads_that_wait_behind_a_frozen_search_are_bounded_too(
    address: str, engine: PostgresEngine
) -> None:
    with closing(PostgresEngine(address, timeout=0.5)) as slow:
        slow.search("karlsruhe")
        with frozen(slow._connection.info.backend_pid):
            failed: list[str] = []

            def search() -> None:
                try:
                    slow.search("karlsruhe")
                except ServerFailed as error:
                    failed.append(str(error))

            threads = [threading.Thread(target=search) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join(timeout=10)
            assert not any(each.is_alive() for each in threads)
        assert all("within 0.5 seconds" in each for each in failed)


def test_a_server_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://me:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/geo"
        with closing(PostgresEngine(address, timeout=0.3)) as engine:
            began = time.monotonic()
            with pytest.raises(ServerFailed, match="gave no answer within 0.3 seconds") as caught:
                engine.search("ulm")
            assert time.monotonic() - began < 2  # libpq alone waits for two seconds or more
    assert PASSWORD not in f"{caught.value} {engine!r}"


def test_rows_that_no_list_can_hold_are_left_out(address: str, extensions: set[str]) -> None:
    with closing(PostgresEngine(address, table="spoilt", earthdistance=False)) as engine:
        engine.load([*PLACES, Place("x1", "Karlsruhe X", 1, 1), Place("x2", "Karlsruhe Y", 1, 1)])
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("UPDATE spoilt SET lat = 'NaN' WHERE id = 'x1'")
            connection.execute("UPDATE spoilt SET lon = 500 WHERE id = 'x2'")
        with pytest.warns(PlacingsWarning, match="which is not on the globe"):
            found = engine.search("karlsruhe")
        ids = [hit.id for hit in found]
        assert "ka" in ids
        assert not {"x1", "x2"} & set(ids)
        assert [hit.rank for hit in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("text", ["karls\0ruhe", "karlsruhe \ud800", "\ud800", "k" * 500_000, "' OR 1=1; --"])
def test_every_text_can_be_asked(engine: PostgresEngine, text: str) -> None:
    assert isinstance(engine.search(text), list)


def test_places_with_nul_half_pairs_and_nan_in_their_fields_are_loaded(
    address: str, extensions: set[str]
) -> None:
    odd = Place("o\0dd", "Ul\ud800m", 48.4, 10.0, fields={"a\0": ["\ud800", float("nan"), {"b": "\0"}]})
    with closing(PostgresEngine(address, table="odd")) as engine:
        engine.load([odd])
        (hit,) = engine.search("ul")
        assert (hit.id, hit.name) == ("odd", "Ul\ufffdm")
        assert hit.fields["a"] == ["\ufffd", None, {"b": ""}]


def test_a_password_is_in_no_message_of_the_server(address: str) -> None:
    wrong = address.replace(PASSWORD, "wrong%3Fpass")
    with closing(PostgresEngine(wrong)) as engine, pytest.raises(ServerFailed) as caught:
        engine.search("ulm")
    said = f"{caught.value} {caught.value.__context__} {caught.value.__cause__} {engine!r}"
    assert "password authentication failed" in said
    for form in ("wrong?pass", "wrong%3Fpass"):
        assert form not in said
