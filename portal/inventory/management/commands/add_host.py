"""manage.py add_host NAME --local | --simulate LAYOUT"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from portal import clock
from portal.errors import Refused
from portal.gateway import GatewayError
from portal.inventory import actions, discovery
from portal.inventory.models import HostKind


class Command(BaseCommand):
    help = "Add a host and ask it for its GPUs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="lower-case letters, digits, dots and hyphens")
        kind = parser.add_mutually_exclusive_group(required=True)
        kind.add_argument("--local", action="store_true", help="the machine that the portal runs on")
        kind.add_argument("--simulate", metavar="LAYOUT", help="simulated GPUs, real machines: t4, a40, ...")

    def handle(self, *args: Any, **options: Any) -> None:
        layout = options["simulate"] or ""
        kind = HostKind.LOCAL if options["local"] else HostKind.SIMULATED
        name, now = options["name"], clock.now()
        try:
            with transaction.atomic():  # a host that cannot be asked is not added
                host = actions.add_host(name, kind, layout=layout, by=None, now=now)
                gpus = discovery.look(host, now=now)
        except Refused as refused:
            raise CommandError(refused.detail) from refused
        except GatewayError as error:
            raise CommandError(f"{name} is not added: {error.what} {error.remedy}") from error
        for gpu in gpus:
            self.stdout.write(f"{gpu}: {', '.join(gpu.regimes) or 'cannot be shared'}")
        self.stdout.write(f"Added {host} with {len(gpus)} GPU(s).")
