"""The Django app."""

from django.apps import AppConfig


class DjqueueConfig(AppConfig):
    """Registers djqueue's tables and checks."""

    name = "djqueue"
    verbose_name = "Job queue"
    default_auto_field = "django.db.models.BigAutoField"
