"""The attacks go both ways to the database: through Django's cursor and through an adopted connection."""

from tests.store.conftest import store

__all__ = ["store"]
