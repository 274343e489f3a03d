"""What the shop keeps.

What jobs write has no unique constraint, so that a job done twice leaves two rows to be seen.
"""

from django.db import models


class Order(models.Model):
    """What a customer bought."""

    number = models.CharField(max_length=40, unique=True)
    customer_email = models.EmailField()
    total = models.DecimalField(max_digits=10, decimal_places=2)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.number


class Receipt(models.Model):
    """A receipt that was sent. Exactly one per order is right; none is a lost job, two are a doubled one."""

    order_id = models.BigIntegerField(db_index=True)
    sent_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"receipt for order {self.order_id}"


class Thumbnail(models.Model):
    """A small picture that was made of a large one."""

    image = models.CharField(max_length=200)
    width = models.PositiveIntegerField()
    made_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.image} at {self.width} px"


class PartnerCall(models.Model):
    """One call of the partner's interface, whether it went well or not."""

    order_id = models.BigIntegerField(db_index=True)
    attempt = models.PositiveIntegerField()
    succeeded = models.BooleanField()
    called_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"call {self.attempt} for order {self.order_id}"


class Counter(models.Model):
    """A number that jobs add to: it shows every job that was lost or done twice."""

    name = models.CharField(max_length=40, unique=True)
    value = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"
