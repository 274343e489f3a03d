"""A collector for prometheus_client: register it with a registry of yours, or use the view of `djqueue.metrics.urls`.

Invariant: figures are read at the moment of the scrape, and nothing is kept in this process, so that it does not matter
which of many web processes answers.
"""

from collections.abc import Iterator

from django.core.exceptions import ImproperlyConfigured

from djqueue.backend import DjqueueBackend
from djqueue.compat import task_backends
from djqueue.metrics.samples import samples
from djqueue.metrics.table import METRICS, Kind, Metric

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise ImproperlyConfigured(
        "djqueue.metrics needs prometheus-client, which is not installed: pip install 'djqueue[metrics]'"
    ) from missing

Family = CounterMetricFamily | GaugeMetricFamily


class DjqueueCollector(Collector):
    """Give the metrics of every database that a djqueue backend of the TASKS setting uses."""

    def describe(self) -> list[Family]:
        """Name the metrics without a query, when it is registered."""
        return [_family(name, metric) for name, metric in METRICS.items()]

    def collect(self) -> Iterator[Family]:
        """Read the figures; what a database raises is raised here."""
        families = {name: _family(name, metric) for name, metric in METRICS.items()}
        for alias in _databases():
            for name, labels, value in samples(alias):
                families[name].add_metric([alias, *labels], value)
        yield from families.values()


def _databases() -> list[str]:
    found = [backend for backend in task_backends.all() if isinstance(backend, DjqueueBackend)]
    return sorted({backend.alias_of_database for backend in found})


def _family(name: str, metric: Metric) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    return kind(name, metric.help, labels=["database", *metric.labels])
