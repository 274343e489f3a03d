"""The programs of contenders: each verb is a process of the contender's own interpreter, and answers in JSON."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare.peers.base import Peer
from testproject.embedded.launch import die_with_parent

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 40


class RunFailed(Exception):
    """A run that proves nothing: a job was lost or doubled, or a program failed."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A peer, the interpreter that has its package, and its version."""

    peer: Peer
    python: Path
    version: str

    @property
    def module(self) -> str:
        """The module that is its program."""
        return f"benchmarks.compare.peers.{self.peer.name.replace('-', '_')}"


def clean_environment() -> dict[str, str]:
    """Return the environment of a contender's programs: without what this process needs for itself."""
    own = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "DJQUEUE_OPTIONS")
    return {**{name: value for name, value in os.environ.items() if name not in own}, "PYTHONPATH": str(ROOT)}


def start(contender: Contender, env: Mapping[str, str], verb: str, *values: object) -> subprocess.Popen[str]:
    command = [str(contender.python), "-m", contender.module, verb, *map(str, values)]
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
    out = errors if verb == "worker" else subprocess.PIPE
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(env),
        stdout=out,
        stderr=errors,
        text=True,
        preexec_fn=die_with_parent(os.getpid(), signal.SIGTERM) if sys.platform == "linux" else None,
    )
    process.stderr = errors
    return process


def answer(contender: Contender, process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    said = process.stdout.read()
    if process.wait(600):
        raise RunFailed(f"{contender.peer.label}: {' '.join(map(str, process.args[2:]))}: {errors_of(process)}")  # type: ignore[index]
    answer: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return answer


def errors_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    process.stderr.seek(0)
    return re.sub(r"\s+\n", "\n", process.stderr.read())[-2_000:]


def stop(process: subprocess.Popen[str]) -> None:
    """Ask it to stop, and insist."""
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(STOP_SECONDS / 2)
            except subprocess.TimeoutExpired:
                print(f"{process.args} does not stop", file=sys.stderr)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
