"""Addresses and forms of the admin's pages, and what they answer."""

from collections.abc import Iterable
from typing import Any

from django.contrib.messages import get_messages
from django.db.models import Model
from django.test import Client
from django.urls import reverse

MODELS = ("job", "history", "deadletter", "queue", "worker", "cronentry", "cronfire", "errorgroup", "replay", "circuit")


def list_of(model: str) -> str:
    """The address of a list."""
    return reverse(f"admin:djqueue_{model}_changelist")


def add_to(model: str) -> str:
    """The address where one is added."""
    return reverse(f"admin:djqueue_{model}_add")


def page_of(obj: Model, what: str = "change") -> str:
    """The address of an object's page."""
    return reverse(f"admin:djqueue_{obj._meta.model_name}_{what}", args=[obj.pk])


def act(client: Client, action: str, objects: Iterable[Model], **more: Any) -> list[str]:
    """Run an action on objects of one model; return what the user is told."""
    chosen = list(objects)
    data = {"action": action, "index": "0", "_selected_action": [str(obj.pk) for obj in chosen], **more}
    return told(client.post(list_of(str(chosen[0]._meta.model_name)), data))


def told(response: Any) -> list[str]:
    """The messages of an answer."""
    return [str(message) for message in get_messages(response.wsgi_request)]


def text_of(response: Any) -> str:
    """The page, which must have been shown."""
    assert response.status_code == 200, response
    return response.content.decode()
