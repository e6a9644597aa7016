"""The wheel in an empty environment without extras: what a newcomer's pip install gives."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    wheel = next(folder.glob("*.whl"))
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel],
        check=True,
        capture_output=True,
    )
    return folder / "venv" / "bin"


@pytest.mark.slow  # half a minute for an environment that changes with pyproject.toml alone
def test_the_base_install_runs_the_command_line_without_extras(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("2 qid:7 1:0.5 2:300000\n0 qid:7 1:1 2:4\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, check=False)

    listed = run(str(installed / "python"), "-m", "pip", "list").stdout
    for extra in ("torch", "pandas", "polars", "lightgbm", "matplotlib", "pytest"):
        assert extra not in listed
    assert "inspect" in run(str(installed / "placings"), "--help").stdout
    shown = run(str(installed / "placings"), "inspect", "rows.txt")
    assert shown.returncode == 0, shown.stderr
    assert "f2" in shown.stdout
    script = "import placings as pg; d = pg.read('rows.txt'); print(pg.ndcg(d.X[:, 0], d.y, d.offsets, k=1))"
    assert run(str(installed / "python"), "-c", script).stdout.strip() == "[0.]"
    demo = run(str(installed / "placings"), "demo")
    assert demo.returncode == 1
    assert "pip install 'placings[places]'" in demo.stderr
    frame = run(str(installed / "python"), "-c", "import placings as pg; pg.read('rows.txt').to_pandas()")
    assert "pip install 'placings[frames]'" in frame.stderr
