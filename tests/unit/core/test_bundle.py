"""Bundles: written whole, read only if every byte is the one that was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placings.core.bundle import MANIFEST, read_bundle, write_bundle
from placings.core.errors import BadBundle, BadInput

FILES = {"model.txt": b"tree 1\n", "features.json": b"{}"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model"


def test_what_was_written_is_read_back(path: Path) -> None:
    digest = write_bundle(path, {"ranker": "LinearRanker"}, FILES)
    bundle = read_bundle(path, digest=digest)
    assert dict(bundle.files) == FILES
    assert bundle.manifest["ranker"] == "LinearRanker"
    assert bundle.digest == digest
    assert sorted(child.name for child in path.parent.iterdir()) == ["model"]


def test_the_same_content_has_the_same_digest(path: Path, tmp_path: Path) -> None:
    assert write_bundle(path, {"a": 1}, FILES) == write_bundle(tmp_path / "other", {"a": 1}, FILES)
    assert write_bundle(path, {"a": 1}, FILES) != write_bundle(tmp_path / "other", {"a": 2}, FILES)


def test_another_digest_is_refused(path: Path) -> None:
    write_bundle(path, {}, FILES)
    with pytest.raises(BadBundle, match="It is not the bundle that was pinned"):
        read_bundle(path, digest="0" * 64)


def test_a_bundle_is_replaced_but_nothing_else_is(path: Path) -> None:
    write_bundle(path, {"a": 1}, FILES)
    write_bundle(path, {"a": 2}, {"other.txt": b""})
    assert sorted(child.name for child in path.iterdir()) == [MANIFEST, "other.txt"]
    (path.parent / "notes").mkdir()
    (path.parent / "notes" / "diary.txt").write_text("dear diary")
    with pytest.raises(BadInput, match="exists and is not a bundle"):
        write_bundle(path.parent / "notes", {}, FILES)
    with pytest.raises(BadInput, match="exists and is not a bundle"):
        write_bundle(path.parent / "notes" / "diary.txt", {}, FILES)


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", MANIFEST, "x" * 200])
def test_a_file_cannot_be_named_out_of_the_folder(path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="a plain name"):
        write_bundle(path, {}, {name: b""})


def test_a_failed_write_leaves_the_old_bundle(path: Path) -> None:
    write_bundle(path, {"a": 1}, FILES)
    with pytest.raises(BadInput, match="plain values only"):
        write_bundle(path, {"a": object()}, FILES)
    with pytest.raises(BadInput, match="plain values only"):
        write_bundle(path, {"a": float("nan")}, FILES)
    assert read_bundle(path).manifest["a"] == 1


def change_manifest(path: Path, **changes: object) -> None:
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, **changes}))


def test_a_future_foreign_or_edited_manifest_is_refused_by_name(path: Path) -> None:
    write_bundle(path, {"ranker": "LinearRanker"}, FILES)
    good = (path / MANIFEST).read_bytes()
    for changes, message in (
        ({"version": 2}, "has format version 2; this placings reads up to 1. Upgrade placings"),
        ({"version": "x"}, "unknown format version 'x'"),
        ({"kind": "mlflow"}, "belongs to something else"),
        ({"ranker": "CatBoostRanker"}, "was changed after it was written"),
        ({"files": {}}, "was changed after it was written"),
    ):
        change_manifest(path, **changes)
        with pytest.raises(BadBundle, match=message):
            read_bundle(path)
        (path / MANIFEST).write_bytes(good)
    for text in (b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000):
        (path / MANIFEST).write_bytes(text)
        with pytest.raises(BadBundle):
            read_bundle(path)


def test_files_that_are_missing_added_changed_or_linked_are_refused_by_name(path: Path) -> None:
    write_bundle(path, {}, FILES)
    (path / "model.txt").write_bytes(b"tree 2\n")
    with pytest.raises(BadBundle, match="model.txt: does not match its checksum"):
        read_bundle(path)
    (path / "model.txt").write_bytes(b"tree")
    with pytest.raises(BadBundle, match="model.txt: has 4 bytes, not 7"):
        read_bundle(path)
    (path / "model.txt").unlink()
    with pytest.raises(BadBundle, match="model.txt: is missing"):
        read_bundle(path)
    outside = path.parent / "outside"
    outside.write_bytes(FILES["model.txt"])
    (path / "model.txt").symlink_to(outside)
    with pytest.raises(BadBundle, match="model.txt: is missing"):
        read_bundle(path)
    (path / "model.txt").unlink()
    (path / "model.txt").write_bytes(FILES["model.txt"])
    (path / "run.py").write_text("print('hello')")
    with pytest.raises(BadBundle, match="run.py: is not part of the bundle"):
        read_bundle(path)


def test_what_is_no_bundle_is_refused(path: Path) -> None:
    with pytest.raises(BadBundle, match="is not a bundle: a folder with a manifest.json was expected"):
        read_bundle(path)
    path.write_text("x")
    with pytest.raises(BadBundle, match="is not a bundle"):
        read_bundle(path)
