"""The shop's addresses: the admin, where djqueue lives, and the place to order."""

from django.contrib import admin
from django.urls import path

from testproject.shop.views import place_order

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/", place_order, name="place-order"),
]
