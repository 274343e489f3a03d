"""A task whose payload has the version that the environment says, so that old and new code run side by side."""

import os
from typing import Any

from djqueue import task
from testproject.trials import ledger

VERSION = int(os.environ.get("TRIALS_VERSION", "1"))


def _upgraded(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return args, {"label": f"{kwargs['label']} upgraded"}


@task(version=VERSION, upgrades=dict.fromkeys(range(1, VERSION), _upgraded), aliases=["trials.versioned.former"])
def versioned(label: str) -> None:
    """Write which code has run it."""
    ledger.write(label, f"v{VERSION}")
