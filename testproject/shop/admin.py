"""The shop in the admin, beside the queue."""

from django.contrib import admin

from djqueue.admin.subject import JobsInline
from testproject.shop.models import Counter, Order, PartnerCall, Receipt, Thumbnail

admin.site.register([Counter, PartnerCall, Receipt, Thumbnail])


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """An order, with the jobs that are about it."""

    list_display = ("number", "customer_email", "total", "created_at")
    inlines = [JobsInline]
