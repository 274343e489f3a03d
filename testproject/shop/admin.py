"""The shop in the admin, beside the queue."""

from django.contrib import admin

from testproject.shop.models import Counter, Order, PartnerCall, Receipt, Thumbnail

admin.site.register([Counter, Order, PartnerCall, Receipt, Thumbnail])
