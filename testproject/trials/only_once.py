"""A module with tasks that the first process can import and no later one, where TRIALS_IMPORT_ONCE names a file."""

import os
from pathlib import Path

if path := os.environ.get("TRIALS_IMPORT_ONCE"):
    Path(path).touch(exist_ok=False)
