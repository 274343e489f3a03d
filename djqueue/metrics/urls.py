"""The address of the metrics: `path("metrics", include("djqueue.metrics.urls"))`. Include it where you want it."""

from django.urls import path

from djqueue.metrics.views import metrics

app_name = "djqueue_metrics"
urlpatterns = [path("", metrics, name="metrics")]
