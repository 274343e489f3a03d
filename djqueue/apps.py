"""The Django app: registers the checks, and makes the first days of history after a migration."""

import logging
from typing import Any

from django.apps import AppConfig
from django.core import checks as django_checks
from django.db.models.signals import post_migrate

log = logging.getLogger("djqueue")

LOCK_NOT_AVAILABLE = "55P03"


class DjqueueConfig(AppConfig):
    """Registers djqueue's tables and checks."""

    name = "djqueue"
    verbose_name = "Job queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what runs on Django's occasions."""
        from djqueue import checks

        for check, tags in checks.REGISTERED:
            django_checks.register(check, *tags)
        post_migrate.connect(make_days_of_history, sender=self, dispatch_uid="djqueue.make_days_of_history")


def make_days_of_history(using: str, **kwargs: Any) -> None:
    """Make the partitions of the next days. Where a lock can't be had, the leader of the workers makes them later."""
    from djqueue.store import faults, history

    try:
        history.ensure_partitions(using)
    except faults.ERRORS as error:
        if faults.sqlstate(error) != LOCK_NOT_AVAILABLE:
            raise
        log.warning("partitions of history not made yet, workers will do it database=%s", using)
