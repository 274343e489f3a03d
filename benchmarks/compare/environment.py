"""The peers' own virtualenv, and who takes part: what is not there is skipped, with the reason.

djqueue and the floor run in this interpreter; peers in `--peers-env`, or in one that is made under the user's cache
folder, outside the repository, at the first run.
"""

import importlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare.databases import redis_program
from benchmarks.compare.peers.base import Peer
from benchmarks.compare.programs import ROOT, Contender

OWN = ("djqueue", "bare", "copy")
PEERS = (
    "pgqueuer",
    "pgqueuer-tuned",
    "oban",
    "chancy",
    "dj-queue",
    "django-ox",
    "django-tasks-db",
    "procrastinate",
    "huey",
    "dramatiq",
    "celery",
)


def default_folder() -> Path:
    """Return where the peers' virtualenv is made: under the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "djqueue" / f"peers-{sys.version_info.major}.{sys.version_info.minor}"


def peer(name: str) -> Peer:
    """Return what describes a contender; its package need not be there."""
    module = importlib.import_module(f"benchmarks.compare.peers.{name.replace('-', '_')}")
    found: Peer = module.PEER
    return found


def contenders(names: Sequence[str], folder: Path | None) -> tuple[list[Contender], dict[str, str]]:
    """Return who takes part, and who is skipped, each with the reason."""
    taking_part = [_own(name) for name in OWN]
    skipped: dict[str, str] = {}
    wanted = [peer(name) for name in names]
    python = _interpreter(folder, wanted, skipped)
    for each in wanted:
        if each.name in skipped:
            continue
        if each.store == "redis" and redis_program() is None:
            skipped[each.name] = "no redis-server on PATH (Debian's package: redis-server)"
            continue
        version, problem = _version(python, each)
        if version:
            taking_part.append(Contender(each, python, version))
        else:
            skipped[each.name] = problem
    return taking_part, skipped


def _own(name: str) -> Contender:
    found = peer(name)
    version, problem = _version(Path(sys.executable), found)
    if not version:
        raise SystemExit(f"{found.label}: {problem}")
    return Contender(found, Path(sys.executable), version)


def _interpreter(folder: Path | None, wanted: Sequence[Peer], skipped: dict[str, str]) -> Path:
    """Return the peers' interpreter; make its virtualenv where none was named."""
    if folder is not None:
        python = folder / "bin" / "python"
        if wanted and not python.exists():
            raise SystemExit(f"--peers-env: expected a virtualenv in {folder}, got none (there is no bin/python)")
        return python
    folder = default_folder()
    python = folder / "bin" / "python"
    if wanted and not python.exists():
        print(f"making the peers' virtualenv in {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
    for each in wanted:
        if not _version(python, each)[0] and not _install(python, each):
            skipped[each.name] = f"pip could not install {', '.join(each.requires)} in {folder}"
    return python


def _install(python: Path, peer_: Peer) -> bool:
    print(f"installing {', '.join(peer_.requires)}", file=sys.stderr)
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *peer_.requires]
    return subprocess.run(command, stdout=sys.stderr).returncode == 0


def _version(python: Path, peer_: Peer) -> tuple[str, str]:
    """Return the version of the contender's package, or an empty string and the reason."""
    command = [str(python), "-m", f"benchmarks.compare.peers.{peer_.name.replace('-', '_')}", "version"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        return "", f"{peer_.package} is not installed in {python.parent.parent}"
    return str(json.loads(done.stdout.strip().splitlines()[-1])["version"]), ""
