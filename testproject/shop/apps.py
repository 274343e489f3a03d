"""The shop as a Django app."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Name the app; its tasks are found in `tasks.py`."""

    name = "testproject.shop"
    label = "shop"
