"""The cache: what is kept comes back the same, mapped, and never stale, half-written or executed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadInput, PlacingsWarning
from placings.data import cache
from placings.data.ranking import RankingData
from placings.data.reading import read

ROWS = "2 qid:7 1:0.5 2:3 #docid = A\n0 qid:7 1:1 2:nan\n1 qid:9 1:2 2:2.5 #docid = B\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLACINGS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PLACINGS_CACHE_LIMIT", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows.txt"
    path.write_text(ROWS)
    return path


def assert_same(first: RankingData, second: RankingData) -> None:
    for name in ("X", "y", "offsets", "qids", "items", "position", "weight", "propensity", "time"):
        one, two = getattr(first, name), getattr(second, name)
        if one is None:
            assert two is None
        else:
            one, two = (v.toarray() if hasattr(v, "toarray") else v for v in (one, two))
            np.testing.assert_array_equal(one, two)
            assert one.dtype == two.dtype
    assert first.feature_names == second.feature_names
    assert first.segments.keys() == second.segments.keys()
    for name in first.segments:
        np.testing.assert_array_equal(first.segments[name], second.segments[name])


def test_the_second_read_is_mapped_and_equal(source: Path) -> None:
    fresh = read(source, cache="always")
    again = read(source, cache="always")
    assert_same(fresh, again)
    base = np.asarray(again.X)
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)
    assert len(cache.list_entries()) == 1


def test_small_files_and_cache_off_keep_nothing(source: Path) -> None:
    read(source)
    read(source, cache=False)
    assert cache.list_entries() == []
    with pytest.raises(BadInput, match="cache must be True, False or 'always'. Got 'never'"):
        read(source, cache="never")


def test_large_files_are_kept_by_themselves(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SMALLEST", 10)
    read(source)
    assert [entry.rows for entry in cache.list_entries()] == [3]


def test_everything_a_ranking_data_holds_survives(tmp_path: Path, source: Path) -> None:
    data = RankingData.from_arrays(
        csr_array(np.array([[0, 1], [2, 0], [0, 0]], dtype=np.float32)),
        [0, 1, 0.5],
        ["ü", "b", "ü"],
        feature_names=["x", "y"],
        items=[3, 1, 2],
        position=[1, 2, 3],
        weight=[1, 2, 3],
        propensity=[0.5, 0.25, 1],
        time=np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[us]"),
        segments={"a/b": np.array(["x", None, "z"], dtype=object), "n": [1, 2, 3]},
    )
    assert cache.remember("k" * 40, source, data, [])
    found = cache.load_entry("k" * 40)
    assert found is not None
    assert found[0].is_sparse
    assert_same(data, found[0])


def test_a_changed_file_or_option_is_another_entry(source: Path) -> None:
    read(source, cache="always")
    source.write_text(ROWS.replace("0.5", "0.7"))
    assert read(source, cache="always").X[0, 0] == np.float32(0.7)
    read(source, cache="always", n_features=5)
    assert len(cache.list_entries()) == 3


def test_a_rewrite_of_same_size_and_time_is_still_noticed(source: Path) -> None:
    before = source.stat()
    read(source, cache="always")
    source.write_text(ROWS.replace("0.5", "0.7"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.stat().st_size == before.st_size
    assert read(source, cache="always").X[0, 0] == np.float32(0.7)


def test_a_changed_side_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "rank.train"
    path.write_text("1 1:1\n0 1:2\n")
    (tmp_path / "rank.train.query").write_text("1\n1\n")
    assert len(read(path, cache="always")) == 2
    (tmp_path / "rank.train.query").write_text("2\n")
    assert len(read(path, cache="always")) == 1


def test_warnings_are_said_again_on_the_mapped_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("1 qid:5 1:1\n0 qid:6 1:2\n2 qid:5 1:3\n")
    for _ in range(2):
        with pytest.warns(PlacingsWarning, match="qid 5 comes back"):
            read(path, cache="always")


@pytest.mark.parametrize("damage", ["truncate", "meta", "missing", "version", "pickle"])
def test_a_damaged_entry_is_read_anew(source: Path, folder: Path, damage: str) -> None:
    fresh = read(source, cache="always")
    entry = folder / cache.list_entries()[0].key
    meta = json.loads((entry / "entry.json").read_text())
    if damage == "truncate":
        (entry / "X.npy").write_bytes((entry / "X.npy").read_bytes()[:-4])
    elif damage == "meta":
        (entry / "entry.json").write_text("{")
    elif damage == "missing":
        (entry / "y.npy").unlink()
    elif damage == "version":
        (entry / "entry.json").write_text(json.dumps({**meta, "format": 99}))
    else:
        np.save(entry / "y.npy", np.array([{}, {}, {}], dtype=object), allow_pickle=True)
        meta["sizes"]["y.npy"] = (entry / "y.npy").stat().st_size
        (entry / "entry.json").write_text(json.dumps(meta))
    with pytest.warns(PlacingsWarning, match="a damaged copy was thrown away"):
        assert_same(fresh, read(source, cache="always"))
    assert_same(fresh, read(source, cache="always"))  # kept anew, so nothing is said


@pytest.mark.parametrize("name", ["X.npy", "y.npy", "qids.npy", "offsets.npy", "items.arrow", "entry.json"])
def test_a_flipped_bit_is_seen_and_the_file_read_anew(source: Path, folder: Path, name: str) -> None:
    fresh = read(source, cache="always")
    file = folder / cache.list_entries()[0].key / name
    content = bytearray(file.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    file.write_bytes(content)
    with pytest.warns(PlacingsWarning, match="a damaged copy was thrown away"):
        assert_same(fresh, read(source, cache="always"))


@pytest.mark.parametrize(
    "text",
    ["[]", "null", "[" * 5000, '{"sizes": []}', '{"sizes": {"a": "x"}, "shape": [1, 2, 3], "source": 1}',
     '{"sizes": {}, "shape": [1e999, -1, true], "source": ""}', "\x00", "\ufeff{}", '{"seal": NaN}'],
)  # fmt: skip
def test_an_entry_that_says_anything_at_all_never_raises(source: Path, folder: Path, text: str) -> None:
    fresh = read(source, cache="always")
    entry = folder / cache.list_entries()[0].key
    (entry / "entry.json").write_text(text)
    assert cache.list_entries() == []
    cache.prune_entries(1 << 40)
    assert entry.exists()  # a day's grace: another process may be about to look
    with pytest.warns(PlacingsWarning, match="a damaged copy was thrown away"):
        assert_same(fresh, read(source, cache="always"))
    (entry / "entry.json").write_text(text)
    os.utime(entry, (1000.0, 1000.0))
    cache.prune_entries(1 << 40)
    assert not entry.exists()


def test_a_resealed_entry_cannot_lead_outside_its_arrays(source: Path, folder: Path) -> None:
    sparse = read(source, cache="always", sparse=True)
    entry = folder / cache.list_entries()[0].key
    meta = json.loads((entry / "entry.json").read_text())
    meta.pop("seal")
    for change in ({"shape": [3, 2, 1], "feature_names": ["f1"]}, {"columns": ["y", "offsets", "../qids"]}):
        wrong = {**meta, **change}
        (entry / "entry.json").write_text(json.dumps({**wrong, "seal": cache._seal(wrong)}))
        with pytest.warns(PlacingsWarning, match="a damaged copy was thrown away"):
            assert_same(sparse, read(source, cache="always", sparse=True))


def test_an_entry_is_brought_to_the_disk_before_it_gets_its_name(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(cache, "sync_file", lambda path: synced.append(path.name))
    monkeypatch.setattr(cache, "swap_folder", lambda part, path: (synced.append("swap"), part.rename(path)))
    read(source, cache="always")
    assert set(synced) >= {"X.npy", "y.npy", "offsets.npy", "qids.npy", "items.arrow"}
    assert synced[-2:] == ["entry.json", "swap"]


def test_what_has_no_plain_form_is_not_kept_and_does_not_stop_reading(source: Path, folder: Path) -> None:
    odd = np.array([{}, {}], dtype=object)
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], segments={"odd": odd})
    assert not cache.remember("k" * 40, source, data, [])
    assert list(folder.iterdir()) == []


def test_the_least_recently_used_go_first(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = RankingData.from_arrays(np.zeros((1000, 10)), np.zeros(1000), np.zeros(1000))
    for place, key in enumerate(["a" * 40, "b" * 40, "c" * 40]):
        cache.remember(key, source, data, [])
        os.utime(cache.find_folder() / key / "entry.json", (1000.0 + place, 1000.0 + place))
    cache.load_entry("a" * 40)  # used again: now the newest
    size = cache.list_entries()[0].bytes
    monkeypatch.setenv("PLACINGS_CACHE_LIMIT", str(int(size * 2.5)))
    cache.prune_entries(cache.find_limit())
    assert {entry.key[0] for entry in cache.list_entries()} == {"a", "c"}


def test_what_is_larger_than_the_bound_is_not_kept(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_CACHE_LIMIT", "100")
    assert read(source, cache="always").n_rows == 3
    assert cache.list_entries() == []
    assert list(cache.find_folder().iterdir()) == []


def test_leftovers_of_killed_runs_are_removed_after_a_day(source: Path, folder: Path) -> None:
    read(source, cache="always")
    for name, age in ((".old.part", 90_000), (".new.part", 10)):
        (folder / name).mkdir()
        os.utime(folder / name, (time.time() - age, time.time() - age))
    cache.prune_entries(1 << 40)
    assert not (folder / ".old.part").exists()
    assert (folder / ".new.part").exists()


def test_a_folder_that_cannot_be_written_does_not_stop_reading(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PLACINGS_CACHE", str(tmp_path / "file"))
    assert read(source, cache="always").n_rows == 3


@pytest.mark.parametrize(
    ("text", "size"), [("10", 10), ("1K", 1024), ("1.5g", 1.5 * 2**30), ("2 MiB", 2 << 20), ("3MB", 3 << 20)]
)
def test_sizes_are_read_with_units(text: str, size: float) -> None:
    assert cache.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1Q", "infG"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="a size must be bytes, or such as 500M or 20G"):
        cache.parse_size(text)
