"""`manage.py demo`: the main promise, watched at work, and then proven from the database.

Orders and their receipts' jobs are written in one transaction each, some of which are rolled back. Workers run
meanwhile, and one of them is killed with signal 9. At the end every committed order must have exactly one receipt.
"""

import os
import signal
import subprocess
import sys
import time
from typing import Any
from uuid import uuid4

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction

from testproject.shop.models import Order, Receipt
from testproject.shop.tasks import send_receipt

ROLLED_BACK_EVERY = 10
PATIENCE_SECONDS = 120


class Oops(Exception):
    """What goes wrong in a request after the order was written."""


class Command(BaseCommand):
    help = "Run thousands of orders through the queue, kill a worker in the middle, and prove that nothing was lost."

    rolled_back = 0

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--orders", type=int, default=3_000, help="committed orders (default: 3000)")

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        call_command("migrate", verbosity=0, interactive=False)
        self.say("PostgreSQL runs, tables are migrated")
        run, wanted = uuid4().hex[:8], options["orders"]
        self.take_orders(run, 0, wanted // 2)
        workers = start_workers()
        try:
            self.kill_a_worker(run)
            self.take_orders(run, wanted // 2, wanted)
            self.wait_for_receipts(run)
        finally:
            workers.send_signal(signal.SIGTERM)
            workers.wait(60)
        self.prove(run, options["orders"], time.monotonic() - began)

    def take_orders(self, run: str, committed: int, wanted: int) -> None:
        """Write orders as a view would, each with its job in one transaction, some of which come to nothing."""
        turn = 0
        while committed < wanted:
            turn += 1
            number = f"{run}-{committed:06}-{turn:06}"
            try:
                with transaction.atomic():
                    order = Order.objects.create(number=number, customer_email="customer@example.com", total="9.90")
                    send_receipt.enqueue(order.pk)
                    if turn % ROLLED_BACK_EVERY == 0:
                        raise Oops
            except Oops:
                self.rolled_back += 1
                continue
            committed += 1
            if committed % 500 == 0:
                self.say(f"{committed} orders taken ({self.rolled_back} rolled back), {receipts(run)} receipts sent")

    def kill_a_worker(self, run: str) -> None:
        """Kill -9 a worker process while it works on a good many jobs."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (busy := rows(BUSY)) or receipts(run) < 100:
            if time.monotonic() > deadline:
                raise CommandError("expected a worker to start on the orders, none has")
            time.sleep(0.005)
        pid, held = busy[0]
        os.kill(pid, signal.SIGKILL)
        self.say(f"worker process {pid} killed with signal 9 while it held {held} jobs; {receipts(run)} receipts sent")

    def wait_for_receipts(self, run: str) -> None:
        """Wait until no job is left."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (left := scalar("select count(*) from djqueue_job where queue_name = 'emails'")) > 0:
            if time.monotonic() > deadline:
                raise CommandError(f"{left} jobs are still unfinished after {PATIENCE_SECONDS} s")
            self.say(f"{receipts(run)} receipts sent, {left} jobs to go")
            time.sleep(0.5)

    def prove(self, run: str, wanted: int, seconds: float) -> None:
        """Ask the database, not the workers."""
        orders = Order.objects.filter(number__startswith=run).count()
        sent = receipts(run)
        lost = scalar(LOST, f"{run}-%")
        doubled = scalar(DOUBLED, f"{run}-%")
        stray = scalar(
            "select count(*) from shop_receipt r where not exists (select from shop_order o where o.id = r.order_id)"
        )
        self.say(f"done in {seconds:.1f} s; receipts of rolled-back orders: {stray}")
        self.stdout.write(f"demo: {orders} orders, {sent} receipts, {lost} lost, {doubled} doubled")
        if lost or doubled or stray or orders != wanted or sent != wanted:
            sys.exit(1)

    def say(self, words: str) -> None:
        """Show progress at once, also through a pipe."""
        self.stdout.write(words)
        self.stdout.flush()


BUSY = """select w.pid, count(*) from djqueue_job j join djqueue_worker w on w.id = j.leased_by
    where j.state = 'leased' group by w.pid order by 2 desc"""
LOST = """select count(*) from shop_order o where o.number like %s
    and not exists (select from shop_receipt r where r.order_id = o.id)"""
STRAY = "select count(*) from shop_receipt r where not exists (select from shop_order o where o.id = r.order_id)"
DOUBLED = """select count(*) from (select o.id from shop_order o join shop_receipt r on r.order_id = o.id
    where o.number like %s group by o.id having count(*) > 1) x"""


def start_workers() -> "subprocess.Popen[bytes]":
    """Start two worker processes under one supervisor, as `manage.py runworker` does for anybody."""
    return subprocess.Popen([sys.executable, "manage.py", "runworker", "--processes", "2"])


def receipts(run: str) -> int:
    """Count the receipts of this run's orders."""
    orders = Order.objects.filter(number__startswith=run).values("id")
    return Receipt.objects.filter(order_id__in=orders).count()


def rows(sql: str, *params: object) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall()


def scalar(sql: str, *params: object) -> int:
    """Return the one number that a query finds."""
    return int(rows(sql, *params)[0][0])
