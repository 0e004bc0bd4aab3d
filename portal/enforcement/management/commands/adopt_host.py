"""manage.py adopt_host NAME: go on with a host that refuses us, because our database is older than its memory."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import clock, gateway
from portal.enforcement import actions
from portal.gateway import GatewayError
from portal.inventory.models import Host


class Command(BaseCommand):
    help = (
        "After the database was restored from a backup, a host refuses calls with older numbers than it has obeyed. "
        "Look first that no other portal with the same id still runs; then this lets the portal call the host again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the host's name")

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask the host for its number, and continue above it."""
        host = Host.objects.filter(name=options["name"], removed=None).first()
        if host is None:
            raise CommandError(f"There is no host {options['name']}.")
        try:
            report = gateway.observe(host.address)
        except GatewayError as error:
            raise CommandError(f"{error.what} {error.remedy}") from error
        if report.get("portal") is None or UUID(report["portal"]) != UUID(settings.PORTAL_ID):
            raise CommandError(f"{host} has obeyed another portal, or none yet; its number says nothing about ours.")
        number = actions.raise_generation(host, above=int(report["generation"]), by=None, now=clock.now())
        self.stdout.write(f"{host} goes on after generation {number}.")
