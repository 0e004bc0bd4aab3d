"""manage.py add_host NAME --local | --simulate LAYOUT | --ssh USER@HOST[:PORT]"""

import shlex
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from portal import clock
from portal.errors import Refused
from portal.gateway import GatewayError
from portal.host_address import HostAddress, SSHAddress
from portal.inventory import actions, discovery, release
from portal.inventory.models import GPU, Host, HostKind
from portal.inventory.terminal import question


class Command(BaseCommand):
    help = "Add a host and ask it for its GPUs. One that cannot be asked is not added."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="lower-case letters, digits, dots and hyphens")
        kind = parser.add_mutually_exclusive_group(required=True)
        kind.add_argument("--local", action="store_true", help="the machine that the portal runs on")
        kind.add_argument("--simulate", metavar="LAYOUT", help="simulated GPUs, real machines: t4, a40, ...")
        kind.add_argument("--ssh", metavar="USER@HOST[:PORT]", help="another machine; see manage.py ssh_keys first")
        parser.add_argument("--fingerprint", default="", metavar="SHA256:...", help="of its host key; else it is asked")
        parser.add_argument("--simulated-gpus", action="store_true", help="its GPUs are not real; pages say so")

    def handle(self, *args: Any, **options: Any) -> None:
        name, now, far = options["name"], clock.now(), options["ssh"] is not None
        if options["fingerprint"] and not far:
            raise CommandError("Only a host over SSH has a fingerprint; leave --fingerprint out.")
        try:
            actions.check_vacant(name)  # before anybody is asked anything
            with transaction.atomic():  # a host that cannot be asked is not added
                host, gpus = self._over_ssh(options, now) if far else self._here(options, now)
        except Refused as refused:
            raise CommandError(refused.detail) from refused
        except ValueError as error:  # an address of no known form
            raise CommandError(str(error)) from error
        except GatewayError as error:
            raise CommandError(f"{name} is not added: {error.what} {error.remedy}") from error
        for gpu in gpus:
            self.stdout.write(f"{gpu}: {', '.join(gpu.regimes) or 'cannot be shared'}")
        self.stdout.write(f"Added {host} with {len(gpus)} GPU(s).")

    def _here(self, options: dict[str, Any], now: datetime) -> tuple[Host, list[GPU]]:
        kind = HostKind.LOCAL if options["local"] else HostKind.SIMULATED
        layout, simulated = options["simulate"] or "", options["simulated_gpus"]
        host = actions.add_host(options["name"], kind, layout=layout, simulated_gpus=simulated, by=None, now=now)
        return host, discovery.look(host, now=now)

    def _over_ssh(self, options: dict[str, Any], now: datetime) -> tuple[Host, list[GPU]]:
        name, simulated = options["name"], options["simulated_gpus"]
        words = ["manage.py", "add_host", name, "--ssh", options["ssh"], *["--simulated-gpus"] * simulated]
        ssh = discovery.pinned(
            SSHAddress.parse(options["ssh"]),
            given=options["fingerprint"],
            repeat=shlex.join(words),
            ask=question(self.stdout),
        )
        meeting = discovery.meet(HostAddress(name, HostKind.SSH, ssh=ssh))
        host = actions.add_host(name, HostKind.SSH, ssh=ssh, simulated_gpus=simulated, by=None, now=now)
        gpus = actions.record_inventory(host, meeting.report, now)
        differs = release.difference(meeting.release, settings.VERSION)
        if differs:
            self.stdout.write(differs)
        return host, gpus
