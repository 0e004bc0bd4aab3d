"""manage.py remove_host NAME: take a host away on which nothing of the portal's is left."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import clock
from portal.enforcement import actions
from portal.errors import Refused
from portal.inventory.models import Host


class Command(BaseCommand):
    help = "Remove a host. Refused, with a list, while machines or bookings are there; disable it first, and wait."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the host's name")
        parser.add_argument(
            "--lost", action="store_true", help="it will never answer again: do not wait for disks of deleted machines"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        host = Host.objects.filter(name=options["name"], removed=None).first()
        if host is None:
            raise CommandError(f"There is no host {options['name']}.")
        try:
            actions.remove_host(host, lost=options["lost"], by=None, now=clock.now())
        except Refused as refused:
            raise CommandError(refused.detail) from refused
        self.stdout.write(f"{host} is removed. Its past bookings stay; add_host {host} would take it into use again.")
