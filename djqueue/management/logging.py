"""Log lines of a command on the console, where the project's own logging says nothing about djqueue."""

import logging

LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}


def log_to_console(verbosity: int) -> None:
    """Write djqueue's log lines to standard error, unless the project has set up handlers for them."""
    log = logging.getLogger("djqueue")
    if log.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(LEVELS.get(verbosity, logging.INFO))
