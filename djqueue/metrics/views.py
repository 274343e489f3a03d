"""The view that Prometheus scrapes. Invariant: without the token only staff that may see queues are answered; where no
token is set, nobody else is."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from djqueue.metrics.collector import DjqueueCollector

# After the collector, which says what is missing.
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # isort: skip

SETTING = "DJQUEUE_METRICS_TOKEN"
PERMISSION = "djqueue.view_queue"


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer in Prometheus' text format; 403 to whoever has neither the token nor the right to see queues."""
    if not (_has_token(request) or _may_see(request)):
        raise PermissionDenied
    registry = CollectorRegistry()
    registry.register(DjqueueCollector())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _has_token(request: HttpRequest) -> bool:
    token = getattr(settings, SETTING, "")
    if not isinstance(token, str):
        raise ImproperlyConfigured(f"{SETTING}: expected a string, got {type(token).__name__}; leave it out for none")
    return bool(token) and constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {token}")


def _may_see(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return user is not None and user.is_active and user.is_staff and user.has_perm(PERMISSION)
