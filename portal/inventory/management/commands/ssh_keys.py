"""manage.py ssh_keys [--host NAME]: the two lines for authorized_keys on a host."""

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import gateway
from portal.gateway import GatewayError
from portal.inventory.models import SAFE_NAME


class Command(BaseCommand):
    help = (
        "Print what goes into ~/.ssh/authorized_keys of root on a host that is to be added with add_host --ssh. "
        "Each key starts vmctl and nothing else."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="", help="the host's name at the portal (default: its own name)")
        parser.add_argument(
            "--vmctl", default="/usr/local/bin/vmctl", metavar="PATH", help="where vmctl is on the host"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """The lines alone on standard output, so that they can be appended as they are."""
        name, program = options["host"], options["vmctl"]
        if name and not re.fullmatch(SAFE_NAME.regex, name):
            raise CommandError(f"{name!r} is no host name. {SAFE_NAME.message}")
        if not re.fullmatch(r"/[A-Za-z0-9/._-]+", program):
            raise CommandError(f"{program!r} is no plain absolute path.")
        try:
            keys = gateway.public_keys()
        except GatewayError as error:
            raise CommandError(f"{error.what} {error.remedy}") from error
        words = [program, *(["--host", name] if name else []), "serve"]
        for key, public in keys.items():
            self.stdout.write(f'restrict,command="{" ".join(words)} {key}" {public}')
