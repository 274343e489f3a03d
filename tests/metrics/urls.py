"""The metrics at an address, as a project has them."""

from django.urls import include, path

urlpatterns = [path("metrics", include("djqueue.metrics.urls"))]
