"""The road's beginning: an order and its jobs, in one transaction."""

from uuid import uuid4

from django import forms
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from testproject.shop.models import Order
from testproject.shop.tasks import call_partner, send_receipt


class OrderForm(forms.Form):
    """What a customer sends."""

    customer_email = forms.EmailField()
    total = forms.DecimalField(max_digits=10, decimal_places=2, min_value=0)


@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Create an order and enqueue its receipt; either both are committed or neither is."""
    form = OrderForm(request.POST)
    if not form.is_valid():
        return JsonResponse({"errors": form.errors}, status=400)
    with transaction.atomic():
        order = Order.objects.create(number=uuid4().hex, **form.cleaned_data)
        receipt = send_receipt.enqueue(order.pk)
        call_partner.enqueue(order.pk)
    return JsonResponse({"order": order.pk, "receipt_job": receipt.id}, status=201)
