"""The way through djqueue's pages: one row of links, each with its key, for those who may see them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst

ORDER: tuple[tuple[str, str, str], ...] = (
    ("Job", "Jobs", "j"),
    ("Queue", "Queues", "q"),
    ("ErrorGroup", "Causes", "e"),
    ("DeadLetter", "Dead", "d"),
    ("Replay", "Replays", "p"),
    ("BulkAct", "Acts", "a"),
    ("CronEntry", "Cron", "c"),
    ("Worker", "Workers", "w"),
    ("Pause", "Pauses", "z"),
    ("Circuit", "Circuits", "i"),
    ("Limiter", "Limits", "l"),
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
    orphans = _page(request, "djqueue_orphans") if "Job" in addresses else ""
    if orphans:
        found.append(_place("Orphans", orphans, "x", path.startswith(orphans)))
    doctor = _page(request, "djqueue_doctor") if request.user.has_perm("djqueue.order_worker") else ""
    if doctor and "Worker" in addresses:
        found.append(_place("Doctor", doctor, "h", path.startswith(doctor)))
    # Of places inside each other the inner one is where one is.
    here = max((place.url for place in found if place.is_here), key=len, default="")
    return [replace(place, is_here=place.url == here) for place in found]


def _place(name: str, url: str, key: str, is_here: bool) -> Place:
    return Place(name=name, url=url, key=key, is_here=is_here)


def crumbs(request: HttpRequest, opts: Any, original: Any, title: str) -> list[tuple[str, str]]:
    """Return the way from the index to a page of our own: names and addresses, the page itself without one."""
    site = getattr(request, "current_app", None)

    def to(name: str, *args: object) -> str:
        return reverse(f"admin:{name}", args=args, current_app=site)

    found = [("Home", to("index")), (str(opts.app_config.verbose_name), to("app_list", opts.app_label))]
    model = f"{opts.app_label}_{opts.model_name}"
    if original is not None:
        found += [
            (capfirst(str(opts.verbose_name_plural)), to(f"{model}_changelist")),
            (str(original), to(f"{model}_change", quote(str(original.pk)))),
        ]
    return [*found, (title, "")]


def _page(request: HttpRequest, name: str) -> str:
    try:
        return reverse(f"admin:{name}", current_app=getattr(request, "current_app", None))
    except NoReverseMatch:
        return ""
