"""Template tags of the shared look: the way from each of djqueue's pages to the others.

Django imports this file in every project, also where the admin is not installed: so it imports the admin when asked.
"""

from collections.abc import Mapping
from typing import Any

import django
from django import template
from django.template.context import Context

register = template.Library()


@register.inclusion_tag("djqueue/parts/nav.html", takes_context=True)
def djqueue_nav(context: Context) -> Mapping[str, Any]:
    """Show where one may go from here."""
    from djqueue.admin import navigation

    request = _request(context)
    return {"places": navigation.places(context.get("available_apps") or (), request.path, request)}


@register.inclusion_tag("djqueue/parts/crumbs.html", takes_context=True)
def djqueue_crumbs(context: Context) -> Mapping[str, Any]:
    """Show the way to this page, in the elements that this release of Django has for it."""
    from djqueue.admin import navigation

    crumbs = navigation.crumbs(
        _request(context), context["opts"], context.get("original"), str(context.get("title", ""))
    )
    return {"crumbs": crumbs, "is_list": django.VERSION >= (6, 1)}


@register.simple_tag(takes_context=True)
def djqueue_overview(context: Context) -> Mapping[str, Any] | None:
    """Return the overview and the address of its live part; nothing to those who may not see it."""
    from djqueue.admin import look, overview, spans

    request = _request(context)
    if not overview.is_allowed(request):
        return None
    site = getattr(request, "current_app", None) or "admin"
    span = spans.chosen(request.GET.get("span"))
    url = look.address("djqueue_overview", site=site, span=span.key)
    return {"panel": overview.panel(request, site), "url": url}


def _request(context: Any) -> Any:
    """The request, also where the project has left out the context processor that puts it into the context."""
    return getattr(context, "request", None) or context["request"]
