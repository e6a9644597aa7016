"""The embedded engine: what it finds, in which order, and what it refuses."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import log10
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placings.core import measure_km
from placings.core.errors import BadFile, BadInput, EmptyFile, MissingExtra, UnknownName
from placings.places.engines import sqlite as scoring
from placings.places.engines.sqlite import POOL, SqliteEngine, build_index
from placings.places.engines.sqlite_index import HASH, SEAL, count_mistakes
from placings.places.engines.sqlite_kept import CROWD
from placings.places.place import Place
from placings.rerank import Engine

ULM, KARLSRUHE, BERLIN = (48.4, 9.99), (49.01, 8.40), (52.52, 13.4)

PLACES = [
    Place("ka", "Karlsruhe", *KARLSRUHE, "locality", weight=300_000, names=("Carlsruhe", "Karlsrū")),
    Place("kahbf", "Karlsruhe Hbf", 48.99, 8.40, "station", "Karlsruhe", weight=2e6, names=("Haupteingang",)),
    Place("kbad", "Karlsbad", 48.9, 8.5, "locality", weight=15_000),
    Place("cz", "Karlovy Vary", 50.2, 12.9, "locality", weight=48_000, names=("Karlsbad",)),
    Place("durlach", "Karlsruhe-Durlach", 49.0, 8.46, "station", "Karlsruhe", weight=75_000),
    Place("ffm", "Frankfurt(Main)Hbf", 50.1, 8.66, "station", weight=2e6),
    Place("stop", "Hauptbahnhof", 48.40, 9.98, "stop", "Ulm", weight=0.1),
    Place("ulm", "Ulm", *ULM, "locality", weight=120_000),
    Place("koln", "Köln", 50.9, 6.96, "locality", weight=1e6),
    Place("muell", "Muellheim", 47.8, 7.6, "locality", weight=18_000),
    Place("street", "Kaiserstraße", 49.01, 8.39, "street", "Karlsruhe"),
    Place(
        "k12", "Kaiserstraße 12", 49.01, 8.41, "address", "Karlsruhe", "Kaiserstraße",
        fields={"postcode": "76131"},
    ),
    Place("k121", "Kaiserstraße 121", 49.01, 8.40, "address", "Karlsruhe", "Kaiserstraße"),
    Place("k12e", "Kaiserstraße 12", 48.94, 8.40, "address", "Ettlingen", "Kaiserstraße"),
    Place("aquila", "L'Aquila", 42.35, 13.4, "locality", weight=70_000),
    Place("mos", "Moscow", 55.75, 37.6, "locality", weight=1e7, names=("Москва",)),
    Place("spr1", "Springfield", 42.1, -72.6, weight=150_000, fields={"region": "Massachusetts MA"}),
    Place("spr2", "Springfield", 44.05, -123.0, weight=60_000, fields={"region": "Oregon OR"}),
    Place("stp", "St. Petersburg", 27.8, -82.7, "locality", weight=250_000),
    Place("odd", "★", 0.0, 0.0),
]  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteEngine]:
    path = build_index(PLACES, tmp_path_factory.mktemp("index") / "places.db")
    with SqliteEngine(path) as opened:
        yield opened


Make = Callable[..., SqliteEngine]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    opened: list[SqliteEngine] = []

    def index(places: list[Place]) -> SqliteEngine:
        opened.append(SqliteEngine(build_index(places, tmp_path / f"{len(opened)}.db")))
        return opened[-1]

    yield index
    for each in opened:
        each.close()


def find(engine: SqliteEngine, text: str, **options: object) -> list[str]:
    return [hit.id for hit in engine.search(text, **options)]  # type: ignore[arg-type]


def test_it_is_an_engine_and_gives_places_back_whole(engine: SqliteEngine) -> None:
    assert isinstance(engine, Engine)
    assert len(engine) == len(PLACES)
    assert engine.layers == ["", "address", "locality", "station", "stop", "street"]
    for place in PLACES[:-1]:
        found = {hit.id: Place.of_hit(hit) for hit in engine.search(place.name)}[place.id]
        assert found == place
        assert found.fields == place.fields


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("karlsruhe", "ka"),
        ("KARLSRUHE HBF", "kahbf"),
        ("Karlsruhe Hauptbahnhof", "kahbf"),
        ("hbf karlsruhe", "kahbf"),
        ("Bahnhof Karlsruhe Durlach", "durlach"),
        ("Bahnhof Durlach", "durlach"),
        ("haupt ulm", "stop"),
        ("Hauptbahnhof, Ulm", "stop"),
        ("Hbf Ulm", "stop"),
        ("Frankfurt Hauptbahnhof", "ffm"),
        ("Frankfurt (Main) Hbf", "ffm"),
        ("Koln", "koln"),
        ("Koeln", "koln"),
        ("köl", "koln"),
        ("Müllheim", "muell"),
        ("Kaiserstraße 12 Karlsruhe", "k12"),
        ("Kaiserstr. 12 karls", "k12"),
        ("kaiserstr 12 Karlsruhe", "k12"),
        ("KAISERSTRASSE 12, 76131", "k12"),
        ("Kaiser Str. 12 Ettlingen", "k12e"),
        ("kaiserstrasse", "street"),
        ("aquila", "aquila"),
        ("laquila", "aquila"),
        ("l’aquila", "aquila"),
        ("москв", "mos"),
        ("springfield ma", "spr1"),
        ("springfield oregon", "spr2"),
        ("Saint Petersburg", "stp"),
        ("st petersb", "stp"),
    ],
)
def test_a_text_finds_what_it_means(engine: SqliteEngine, text: str, first: str) -> None:
    assert find(engine, text)[0] == first


def test_a_beginning_finds_the_main_station(engine: SqliteEngine) -> None:
    assert {"kahbf", "stop", "ffm"} <= set(find(engine, "haupt"))


def test_a_main_name_is_worth_more_than_another_one(engine: SqliteEngine) -> None:
    # 6 + log10(15001) = 10.18 against 4 + log10(48001) = 8.68
    assert find(engine, "karlsbad")[:2] == ["kbad", "cz"]


def test_better_texts_come_first_at_equal_popularity(make: Make) -> None:
    names = ["Neu Adorf", "Adorfen", "Adorf", "Zett", "Yps", "Weit", "Ixo"]
    others = {"Zett": ("Adorf",), "Yps": ("Adorfen",), "Weit": ("Alt Adorf",)}
    engine = make([
        *(Place(name, name, 0, 0, weight=9, names=others.get(name, ())) for name in names[:-1]),
        Place("Ixo", "Ixo", 0, 0, weight=9, locality="Adorf"),
    ])  # fmt: skip
    assert find(engine, "adorf") == ["Adorf", "Zett", "Adorfen", "Yps", "Neu Adorf", "Weit", "Ixo"]


def test_the_score_is_the_formula(engine: SqliteEngine) -> None:
    (hit,) = engine.search("karlsr", layers=["locality"])
    text = scoring.PREFIX_MAIN + scoring.WHOLENESS * 6 / 9
    assert hit.score == pytest.approx(text + log10(300_001))
    (near,) = engine.search("karlsr", focus=KARLSRUHE, layers=["locality"])
    assert near.score - hit.score == pytest.approx(scoring.DISTANCE * log10(20_020 / 5))
    (far,) = engine.search("karlsr", focus=BERLIN, layers=["locality"])
    km = measure_km(*BERLIN, *KARLSRUHE)
    assert far.score - hit.score == pytest.approx(scoring.DISTANCE * log10(20_020 / (km + 5)))


def test_the_nearer_of_two_comes_first(engine: SqliteEngine) -> None:
    assert find(engine, "kaiserstraße 12", focus=(48.94, 8.40))[0] == "k12e"
    assert find(engine, "kaiserstraße 12", focus=KARLSRUHE)[0] == "k12"


def test_layers_keep_their_types_and_unknown_ones_are_named(engine: SqliteEngine) -> None:
    assert find(engine, "karlsruhe", layers=["station"]) == ["kahbf", "durlach"]
    assert find(engine, "karlsruhe", layers=[]) == []
    with pytest.raises(UnknownName, match="no layer 'statoin'; did you mean 'station'"):
        engine.search("karlsruhe", layers=["statoin"])
    with pytest.raises(BadInput, match="layers must be a list"):
        engine.search("karlsruhe", layers="station")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("klan", None),
        ("Kolnn", "koln"),
        ("Kön", "koln"),
        ("Uml", "ulm"),
        ("Karlsrhue", "ka"),
        ("Kralsruhe", "ka"),
        ("Karslrhue", "ka"),
        ("Xarlsruhx", "ka"),
        ("Karlsruhe Hauptbanhof", "kahbf"),
        ("Karlsrue Hauptbanhof", "kahbf"),
        ("Karsr", "kahbf"),
        ("Мосвка", "mos"),
        ("Kaisrestraße 12 Karlsruhe", "k12"),
    ],
)
def test_one_mistake_is_forgiven_in_short_words_and_two_in_long_ones(
    engine: SqliteEngine, text: str, first: str | None
) -> None:
    assert (find(engine, text) or [None])[0] == first


def test_short_words_numbers_and_endless_ones_are_not_corrected() -> None:
    assert [count_mistakes(word) for word in ("a", "12a", "x" * 33, "東京都", "ulm", "berliner")] == [
        0,
        0,
        0,
        0,
        1,
        2,
    ]


def test_a_misspelt_name_never_beats_one_that_fits(make: Make) -> None:
    engine = make([Place("a", "Bilen", 0, 0, weight=10), Place("b", "Bile", 0, 0, weight=1000)])
    assert find(engine, "bilen") == ["a"]
    assert find(engine, "abilen") == ["a"]


def test_without_rapidfuzz_only_two_mistakes_need_it(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    assert find(engine, "Karlsrhue")[0] == "ka"
    with pytest.raises(MissingExtra, match="rapidfuzz"):
        engine.search("Xarlsruhx")


def test_every_word_must_match_and_one_is_left_out_only_if_nothing_does(engine: SqliteEngine) -> None:
    assert find(engine, "springfield ma") == ["spr1"]
    assert find(engine, "Bezirk Karlsruhe")[0] == "ka"
    assert find(engine, "qqqq wwww zzzz") == []


@pytest.mark.parametrize(
    "text",
    [
        '"', "'", '"karlsruhe', "karlsruhe*", "^karlsruhe", "NEAR(karlsruhe ulm)", "name : karlsruhe",
        "{name} : ulm", "ulm OR karlsruhe", "ulm AND", "NOT ulm", "-ulm", "+ulm", "a" * 10_000, "ab " * 5_000,
        "\x00", "ulm\x00karlsruhe", "😀", "ulm 😀", "\ud800", "%", "_", "ulm; DROP TABLE x", "", "  ", "*",
        "(((", "t0", "·", "karlsruhe·hbf",
    ],
)  # fmt: skip
def test_no_text_becomes_syntax(engine: SqliteEngine, text: str) -> None:
    for focus in (None, ULM):
        for hit in engine.search(text, focus=focus):
            assert hit.id in {place.id for place in PLACES}


def test_operators_are_words_and_signs_are_nothing(engine: SqliteEngine) -> None:
    assert find(engine, '"karlsruhe" *') == find(engine, "karlsruhe")
    assert find(engine, "name:ulm")[:1] == ["ulm"]  # no place holds "name", so it is left out
    assert find(engine, "😀") == find(engine, "") == find(engine, "*") == []
    assert find(engine, "t1") == []  # the mark of a layer is no word


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_answered_in_order(engine: SqliteEngine, text: str) -> None:
    hits = engine.search(text, focus=ULM, k=5)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({hit.id for hit in hits}) == len(hits) <= 5


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteEngine]:
    """Many more places that begin alike than are looked at, the least popular of them here and there."""
    count = CROWD + 4 * POOL
    places = [Place(f"b{n}", f"Berg {n:05d}", 10.0, 20.0, "a", weight=2.0 - n / count) for n in range(count)]
    places += [Place("near", "Bergen", *ULM, "b"), Place("date", "Bergli", 0.0, 179.99, "b")]
    places += [
        Place("exact", "Berg", -50.0, 0.0, "b"),
        Place("name", "Zeta", -50.0, 1.0, "b", names=("Berg",)),
    ]
    with SqliteEngine(build_index(places, tmp_path_factory.mktemp("crowd") / "crowd.db")) as opened:
        yield opened


def test_pools_are_as_deep_as_asked_for(crowd: SqliteEngine) -> None:
    assert len(crowd.search("berg", k=1000)) == 1000
    assert len(crowd.search("b", k=300, focus=ULM)) == 300
    deep, flat = find(crowd, "berg", k=100), find(crowd, "berg", k=10)
    assert deep[:10] == flat


def test_an_exact_name_is_found_among_many_more_popular_ones(crowd: SqliteEngine) -> None:
    # 6 and 4 against 3 + 4/10 + log10(3) = 3.88
    assert find(crowd, "berg")[:3] == ["exact", "name", "b0"]
    assert find(crowd, "berg", layers=["b"])[:2] == ["exact", "name"]


def test_a_place_nearby_is_found_among_many_more_popular_ones(crowd: SqliteEngine) -> None:
    assert "near" not in find(crowd, "ber")
    assert find(crowd, "ber", focus=ULM)[0] == "near"
    assert find(crowd, "ber", focus=ULM, layers=["a"])[0] == "b0"


def test_nearby_reaches_across_the_date_line(crowd: SqliteEngine) -> None:
    assert find(crowd, "ber", focus=(0.0, -179.99))[0] == "date"
    assert find(crowd, "ber", focus=(0.0, 179.98))[0] == "date"
    assert len(crowd.search("ber", focus=(90.0, 0.0))) == 40


@pytest.mark.parametrize("focus", [(91, 0), (0, 181), (float("nan"), 0), (1,), "ulm", 3])
def test_a_bad_focus_is_refused(engine: SqliteEngine, focus: object) -> None:
    with pytest.raises(BadInput, match="focus must be"):
        engine.search("ulm", focus=focus)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_a_bad_k_is_refused(engine: SqliteEngine, k: object) -> None:
    with pytest.raises(BadInput, match="k must be a whole number"):
        engine.search("ulm", k=k)  # type: ignore[arg-type]


def test_many_threads_search_at_once_and_find_the_same(engine: SqliteEngine) -> None:
    texts = ["karlsruhe", "haupt", "Karlsrhue", "kaiserstr 12", "b"] * 20
    alone = [find(engine, text, focus=ULM) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: find(engine, text, focus=ULM), texts)) == alone


def test_the_same_places_in_another_order_give_the_same_answers(make: Make) -> None:
    one, two = make(PLACES), make(PLACES[::-1])
    for text in ("k", "haupt", "springfield", "karlsruhe"):
        assert [hit.score for hit in one.search(text)] == [hit.score for hit in two.search(text)]


def test_the_same_places_give_the_same_bytes(tmp_path: Path) -> None:
    files = [build_index(PLACES, tmp_path / name).read_bytes() for name in ("a.db", "b.db")]
    assert files[0] == files[1]


def test_searching_changes_nothing(make: Make) -> None:
    engine = make(PLACES)
    before = engine.path.read_bytes()
    engine.path.chmod(0o444)
    find(engine, "karlsruhe")
    engine.close()
    assert find(engine, "karlsruhe")[0] == "ka"  # opens again
    with engine._borrow() as (connection, _), pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM place")
    assert engine.path.read_bytes() == before
    assert sorted(path.name for path in engine.path.parent.iterdir()) == ["0.db"]


def test_an_index_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = build_index(PLACES[:3], tmp_path / "places.db")
    before = path.read_bytes()

    def fail(done: int, all: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(PLACES, path, progress=fail)
    assert path.read_bytes() == before
    assert [child.name for child in tmp_path.iterdir()] == ["places.db"]


def test_progress_ends_at_all(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    build_index(PLACES, tmp_path / "p.db", progress=lambda done, all: told.append((done, all)))
    assert told[-1] == (len(PLACES), len(PLACES))


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ([PLACES[0], PLACES[0]], "Got 'ka' twice"),
        ([Place("x", "X", 91, 0)], "Got 91, 0 for 'x'"),
        ([Place("x", "X", float("nan"), 0)], "lat must be within"),
        ([Place("x", "X", 0, 0, weight=float("inf"))], "weight must be finite"),
        ([Place("x", "X", 0, 0, weight=-1)], "Got -1 for 'x'"),
    ],
)
def test_bad_places_are_refused(tmp_path: Path, places: list[Place], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        build_index(places, tmp_path / "bad.db")
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_nothing_and_one_in_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmptyFile, match="at least one place"):
        build_index([], tmp_path / "none.db")
    with pytest.raises(BadFile, match="does not exist"):
        build_index(PLACES, tmp_path / "no" / "such.db")


def test_what_is_no_index_is_refused_and_said_so(tmp_path: Path) -> None:
    good = build_index(PLACES, tmp_path / "good.db").read_bytes()
    other, text, cut, old = (tmp_path / name for name in ("other.db", "text.db", "cut.db", "old.db"))
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    text.write_text("no database at all " * 20)
    cut.write_bytes(good[: len(good) // 2])
    old.write_bytes(good[: -len(SEAL) - HASH])
    with sqlite3.connect(old) as connection:
        connection.execute("UPDATE about SET value = '0' WHERE name = 'version'")
    connection.close()
    for path, says in [
        (other, "no place index: no such table"),
        (text, "no place index: it is no SQLite file. Build one with: placings places index"),
        (cut, "it ends early"),
        (old, "is an index of version 0; this placings reads version 1"),
        (tmp_path, "is a folder"),
        (tmp_path / "missing.db", "no such file"),
    ]:
        with pytest.raises(BadFile) as caught:
            SqliteEngine(path)
        assert says in str(caught.value)


def test_a_path_may_hold_signs_that_mean_something_in_addresses(tmp_path: Path) -> None:
    with SqliteEngine(build_index(PLACES, tmp_path / "a?b#c %20.db")) as engine:
        assert find(engine, "ulm")[0] == "ulm"


def test_a_flipped_bit_anywhere_in_the_index_is_refused(tmp_path: Path) -> None:
    path = build_index(PLACES, tmp_path / "places.db")
    good = path.read_bytes()
    for at in [20, 100, *range(8192, len(good) - 1, len(good) // 23), len(good) - HASH - 3, len(good) - 1]:
        spoilt = bytearray(good)
        spoilt[at] ^= 4
        path.write_bytes(spoilt)
        with pytest.raises(BadFile, match="is no place index: its (checksum does not fit|end is missing)"):
            SqliteEngine(path)
    for rest in (good[:-1], good[:-HASH], good[: -HASH - len(SEAL)], good + b"x"):
        path.write_bytes(rest)
        with pytest.raises(BadFile, match="Build one with: placings places index"):
            SqliteEngine(path)
    path.write_bytes(good)
    with SqliteEngine(path) as opened:
        assert find(opened, "karlsbad")[0] == "kbad"


def test_an_index_from_before_there_were_seals_is_still_read(tmp_path: Path) -> None:
    path = build_index(PLACES, tmp_path / "places.db")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM about WHERE name = 'seal'")
    connection.close()
    path.write_bytes(path.read_bytes()[: -len(SEAL) - HASH])
    with SqliteEngine(path) as opened:
        assert find(opened, "ulm")[0] == "ulm"
        assert len(opened) == len(PLACES)


def test_a_damaged_index_without_a_seal_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = build_index(PLACES, tmp_path / "places.db")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM about WHERE name = 'seal'")
        connection.execute("UPDATE place SET fields = '{'")
    connection.close()
    path.write_bytes(path.read_bytes()[: -len(SEAL) - HASH])
    with SqliteEngine(path) as opened, pytest.raises(BadFile, match="it is damaged"):
        opened.search("ulm")


@pytest.mark.parametrize("k", [10_001, 2**63, 10**40])
def test_k_over_its_limit_is_refused_by_name(engine: SqliteEngine, k: int) -> None:
    with pytest.raises(BadInput, match="over the limit of 10,000. If it is right, set PLACINGS_LIMIT_K"):
        engine.search("ulm", k=k)


@pytest.mark.parametrize("text", ["ul\0m", "\ud800", "ulm \udfff", "ulm " * 200_000])
def test_every_text_can_be_asked(engine: SqliteEngine, text: str) -> None:
    assert isinstance(engine.search(text), list)


def test_a_name_with_a_line_break_stays_one_name_and_half_a_pair_is_refused(
    make: Make, tmp_path: Path
) -> None:
    (hit,) = make([Place("1", "Ulm", *ULM, names=("Neu\nUlm",))]).search("ulm")
    assert hit.fields["names"] == ("Neu Ulm",)
    for place in (Place("1", "\ud800", *ULM), Place("1", "Ulm", *ULM, fields={"a": ["\ud800"]})):
        with pytest.raises(BadInput, match="half of a surrogate pair"):
            build_index([place], tmp_path / "no.db")


def test_searches_of_many_threads_take_turns(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    run, inside, most = scoring._Search.run, [0], [0]

    def count(search: object, reading: object) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.002)  # others would come in here
        run(search, reading)  # type: ignore[arg-type]
        inside[0] -= 1

    monkeypatch.setattr(scoring._Search, "run", count)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: find(engine, "karlsruhe"), range(24)))
    assert most == [1]  # eight at once took twice as long for each, handing Python's lock to and fro
    assert all(each == found[0] for each in found)


def test_an_index_that_was_replaced_is_read_as_a_whole_by_the_next_connection(tmp_path: Path) -> None:
    path = tmp_path / "places.db"
    build_index([Place(id="1", name="Ulm", lat=48.4, lon=10.0, type="stop", weight=1.0)], path)
    with SqliteEngine(path) as engine:
        build_index([Place(id="2", name="Ulm", lat=48.4, lon=10.0, type="city", weight=1.0)], path)
        assert [hit.id for hit in engine.search("ulm")] == ["1"]  # the open connection sees the old one
        engine.close()
        assert [hit.id for hit in engine.search("ulm")] == ["2"]
        assert engine.layers == ["city"]
