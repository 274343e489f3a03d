"""The example deployments: each is valid for whoever reads it, its commands exist, and it leaves time to stop."""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from djqueue.conf import Options
from djqueue.management.commands.djqueue import Command
from djqueue.management.commands.runworker import add_worker_arguments

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "deploy"
SETTLING_SECONDS = 15
"""How long the keeper waits for the database at the end."""

PROBE = ["python", "manage.py", "djqueue", "health", "--this-host"]
"""What docs/health.md tells probes to run."""


def parsed(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def refuse_unknown(words: list[str]) -> None:
    """Let the worker's own parser read a command line."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_worker_arguments(parser)  # type: ignore[arg-type]
    assert words[:3] == ["python", "manage.py", "runworker"]
    parser.parse_args(words[3:])


def leaves_time(seconds: int) -> bool:
    return seconds > Options().grace_seconds + SETTLING_SECONDS


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """With paths that exist here; the program is looked for by systemd itself."""
    text = (FOLDER / "djqueue-worker.service").read_text()
    [command] = re.findall(r"^ExecStart=(\S+)(.*)$", text, re.MULTILINE)
    unit = tmp_path / "djqueue-worker.service"
    unit.write_text(text.replace(command[0], sys.executable).replace("/srv/shop", str(tmp_path)))

    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )

    said = [line for line in (found.stdout + found.stderr).splitlines() if "djqueue-worker" in line]
    assert (found.returncode, said) == (0, []), found.stderr
    refuse_unknown(["python", *command[1].split()])
    assert leaves_time(int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0]))


def test_systemd_would_find_what_is_wrong(tmp_path: Path) -> None:
    unit = tmp_path / "djqueue-worker.service"
    unit.write_text((FOLDER / "djqueue-worker.service").read_text())

    found = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, check=False)

    assert found.returncode != 0


def test_compose_starts_workers_after_the_migrations_of_a_healthy_database() -> None:
    services = parsed("compose.yaml")["services"]

    assert services["db"]["healthcheck"]["test"][0] == "CMD-SHELL"
    assert services["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert services["worker"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert services["worker"]["environment"] == services["migrate"]["environment"]
    refuse_unknown(services["worker"]["command"])
    assert services["worker"]["healthcheck"]["test"] == ["CMD", *PROBE]
    assert leaves_time(int(services["worker"]["stop_grace_period"].removesuffix("s")))


def test_the_probe_is_a_command_that_exists() -> None:
    """Its own parser takes it: the verb and the option exist."""
    parser = Command().create_parser("manage.py", "djqueue")

    assert parser.parse_args(PROBE[3:]).this_host is True


def test_kubernetes_gives_the_worker_time_to_stop() -> None:
    spec = parsed("kubernetes.yaml")["spec"]
    pod = spec["template"]["spec"]

    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    refuse_unknown(pod["containers"][0]["command"])
    assert pod["containers"][0]["livenessProbe"]["exec"]["command"] == PROBE
    assert leaves_time(pod["terminationGracePeriodSeconds"])


@pytest.mark.parametrize("words", [["python", "manage.py", "runworker", "--proceses", "2"]])
def test_an_option_that_does_not_exist_is_noticed(words: list[str]) -> None:
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        refuse_unknown(words)
