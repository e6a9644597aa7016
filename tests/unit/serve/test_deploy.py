"""What stands in deploy/: alert rules that Prometheus takes, and only metrics that we have."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from placings.serve.monitor import Monitor

DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)")
@pytest.mark.parametrize("words", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")])
def test_promtool_takes_the_alert_rules(words: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *words], cwd=DEPLOY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_are_about_metrics_that_we_have() -> None:
    told = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    rules = [rule for group in told["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in re.findall(r"placings_\w+", rule["expr"])}
    known = {f"{metric.name}{end}" for metric in Monitor().registry.collect() for end in ("", "_total")}
    assert named <= known
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)


def test_the_image_runs_without_rights_and_asks_for_its_health() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    last_user = [line for line in lines if line.startswith("USER ")][-1]
    assert last_user == "USER placings"
    assert any(line.startswith("HEALTHCHECK ") for line in lines)


def test_compose_publishes_on_loopback_and_holds_no_password() -> None:
    told = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert told["services"]["placings"]["ports"] == ["127.0.0.1:8080:8080"]
    assert told["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${")
    assert "postgres" in told["services"]["placings"]["depends_on"]
