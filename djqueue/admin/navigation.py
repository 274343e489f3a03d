"""The way through djqueue's pages: one row of links, each with its key, for those who may see them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

ORDER: tuple[tuple[str, str, str], ...] = (
    ("Job", "Jobs", "j"),
    ("History", "History", "h"),
    ("Queue", "Queues", "q"),
    ("ErrorGroup", "Causes", "e"),
    ("DeadLetter", "Dead letters", "d"),
    ("Replay", "Replays", "p"),
    ("BulkAct", "Acts", "a"),
    ("CronEntry", "Cron", "c"),
    ("CronFire", "Fires", "f"),
    ("Worker", "Workers", "w"),
    ("Circuit", "Circuits", "i"),
    ("Limit", "Limits", "l"),
    ("Tenant", "Tenants", "t"),
)
"""Model, name, and the key after `g`. Models that this project does not show are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A link of the row."""

    name: str
    url: str
    key: str
    is_here: bool


def places(apps: Iterable[Mapping[str, Any]], path: str, request: HttpRequest) -> list[Place]:
    """Return the pages that the user may see, from what the admin site has found out for its own sidebar."""
    mine = next((app for app in apps if app["app_label"] == "djqueue"), None)
    if mine is None:
        return []
    addresses = {model["object_name"]: model["admin_url"] for model in mine["models"] if model.get("admin_url")}
    found = [_place("Overview", mine["app_url"], "o", path == mine["app_url"])]
    for model, name, key in ORDER:
        if url := addresses.get(model):
            found.append(_place(name, url, key, path.startswith(url)))
    orphans = _orphans(request) if "Job" in addresses else ""
    if orphans:
        found.append(_place("Orphans", orphans, "x", path == orphans))
    return found


def _place(name: str, url: str, key: str, is_here: bool) -> Place:
    return Place(name=name, url=url, key=key, is_here=is_here)


def _orphans(request: HttpRequest) -> str:
    try:
        return reverse("admin:djqueue_orphans", current_app=getattr(request, "current_app", None))
    except NoReverseMatch:
        return ""
