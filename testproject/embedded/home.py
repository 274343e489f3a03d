"""Where the shop keeps its database when DATABASE_URL names none.

`.postgres/` beside manage.py, or what DJQUEUE_POSTGRES_DATA says: a folder, or the word `temporary`. Where root steps
down to a user who can't enter the checkout, a folder of the same meaning stands among the temporary ones.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from testproject.embedded.errors import EmbeddedServerError
from testproject.embedded.launch import SystemUser, step_down_user
from testproject.embedded.reach import can_enter

DATA_VARIABLE = "DJQUEUE_POSTGRES_DATA"
TEMPORARY = "temporary"
PROJECT_ROOT = Path(__file__).resolve().parents[2]


def default_data_dir() -> Path | None:
    """Return the data folder of this checkout; None means a temporary one."""
    named = os.environ.get(DATA_VARIABLE)
    if named == TEMPORARY:
        return None
    if named:
        return Path(named).resolve()
    user = step_down_user()
    if can_enter(PROJECT_ROOT, user):
        return PROJECT_ROOT / ".postgres"
    return substitute_for(PROJECT_ROOT, user)


def substitute_for(root: Path, user: SystemUser | None) -> Path:
    """Return a folder for a checkout that is closed to the user; the same for every process."""
    name = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"djqueue-shop-{name}"
    owners = {os.geteuid(), user.uid if user else os.geteuid()}
    if folder.is_symlink() or (folder.exists() and folder.stat().st_uid not in owners):
        raise EmbeddedServerError(f"{folder} belongs to another user. Set {DATA_VARIABLE} to a folder of your own.")
    return folder
