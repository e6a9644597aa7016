"""The embedded engine with its index in memory: the same hits as from the file, to the last digit."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from placings.places.engines.sqlite import SqliteEngine, build_index
from placings.places.engines.sqlite_held import HeldIndex
from placings.places.engines.sqlite_kept import BOXES, CROWD, make_boxes
from placings.places.place import Place

SYLLABLES = ("ber", "lin", "Karls", "ruhe", "鹿", "Köl", "ня", "st", "san", "o")
FOCUSES = [None, (49.0, 8.4), (49.0, 8.4000001), (0.0, 0.0)]
FOCUSES += [(-33.4, 179.999), (10.0, -180.0), (89.9, 12.0), (-90.0, 0.0)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[SqliteEngine, SqliteEngine]:
    """An index of 5,000 places, a third of them in one town, from its file and from memory."""
    draw = Random(1)
    places = []
    for number in range(5000):
        name = " ".join("".join(draw.choices(SYLLABLES, k=2)) for _ in range(draw.randint(1, 2)))
        town = number % 3 == 0
        lat = 49.0 + draw.gauss(0, 0.002) if town else draw.uniform(-90, 90)
        lon = 8.4 + draw.gauss(0, 0.002) if town else draw.choice([draw.uniform(-180, 180), 180.0, -180.0])
        places.append(
            Place(
                str(number),
                name,
                lat,
                lon,
                draw.choice(["stop", "station", "locality"]),
                "Ulm",
                country="de",
                weight=draw.choice([0.0, 1.0, draw.random() * 1e6]),
                names=("Andere",) * (number % 2),
                fields={"tags": ["a"], "stars": 3} if number % 5 == 0 else {},
            )
        )
    path = build_index(places, tmp_path_factory.mktemp("held") / "places.db")
    return SqliteEngine(path), SqliteEngine(path, held=True)


@pytest.mark.parametrize("focus", FOCUSES)
def test_an_index_in_memory_gives_the_hits_of_its_file(
    pair: tuple[SqliteEngine, SqliteEngine], focus: tuple[float, float] | None
) -> None:
    read, held = pair
    draw = Random(2)
    texts = ["", "s", "b", "st bahnhof", "bahnhof", "haltestelle san", "鹿", "ня", "ulm", "\ud800", "berlni"]
    texts += ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 3)))[:6] for _ in range(40)]
    found = 0
    for text in texts:
        for layers in (None, ["stop"]):
            expected = read.search(text, focus, 40, layers)
            assert held.search(text, focus, 40, layers) == expected
            found += len(expected)
    assert found > 1000  # else nothing was compared


def test_boxes_hold_the_same_places_as_the_tree(pair: tuple[SqliteEngine, SqliteEngine]) -> None:
    connection = pair[0]._free[0][0]
    held = HeldIndex(connection)
    counts = []
    for focus in FOCUSES[1:]:
        for half in BOXES:
            for box in make_boxes(focus, half):  # type: ignore[arg-type]
                sql = "SELECT count(*) FROM spot WHERE south >= ? AND north <= ? AND west >= ? AND east <= ?"
                count = connection.execute(sql, box).fetchone()[0]
                near = held.look(box)
                assert len(near.find([" "])) == count  # every place has words
                assert [near.is_crowd(count), near.is_crowd(count + 1)] == [True, False]
                counts.append(count)
    assert max(counts) > CROWD
    assert 0 in counts


def test_a_hit_shows_what_its_place_says(pair: tuple[SqliteEngine, SqliteEngine]) -> None:
    places = {place.id: place for place in pair[0].places()}
    hits = pair[0].search("san", k=40)
    assert len(hits) == 40
    for hit in hits:
        assert hit == places[hit.id].to_hit(hit.score, hit.rank)
    assert {"tags", "names"} <= {name for hit in hits for name in hit.fields}


def test_a_row_that_memory_cannot_tell_is_read_from_the_file(tmp_path: Path) -> None:
    """An id without a letter is its place's name, whatever is in it: here the sign between fields."""
    path = build_index([Place("\0", "★", 1.0, 2.0)], tmp_path / "odd.db")
    for held in (False, True):
        with SqliteEngine(path, held=held) as engine:
            assert engine.search("★") == []
            assert [row.number for row in engine._kept.read_rows(engine._free[0][0], [1])] == [1]
