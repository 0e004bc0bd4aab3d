"""manage.py vmctl HOST VERB ...: what an operator types on a host, for one that the portal knows."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import gateway
from portal.gateway import GatewayError
from portal.inventory.models import Host


class Command(BaseCommand):
    help = "Ask a host by hand: observe, gpus, check, plan, ... with its own folders, as enforcement does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the host's name")
        parser.add_argument("words", nargs="+", help="a command of vmctl; its own options after --")

    def handle(self, *args: Any, **options: Any) -> None:
        """Turn into vmctl, so that its output and exit status are its own."""
        host = Host.objects.filter(name=options["name"], removed=None).first()
        if host is None:
            raise CommandError(f"There is no host {options['name']}.")
        try:
            words = gateway.command(host.address, *options["words"])
        except GatewayError as error:
            raise CommandError(f"{error.what} {error.remedy}") from error
        if not host.address.ssh:
            words.remove("--json")  # a person reads it; over SSH nothing else is offered
        os.execvp(words[0], words)
