"""manage.py change_host NAME: another address, another host key, in and out of use. Machines there go on running."""

import shlex
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import clock
from portal.enforcement import reading
from portal.errors import Refused
from portal.gateway import GatewayError
from portal.host_address import HostAddress, SSHAddress
from portal.inventory import actions, discovery, release
from portal.inventory.models import Host, HostKind
from portal.inventory.terminal import question


class Command(BaseCommand):
    help = (
        "Change how a host is reached, or whether it is booked. What runs there goes on; a new address is asked first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the host's name")
        parser.add_argument("--ssh", metavar="USER@HOST[:PORT]", help="where it is now")
        parser.add_argument(
            "--fingerprint", default="", metavar="SHA256:...", help="of its host key; alone: it has a new one"
        )
        use = parser.add_mutually_exclusive_group()
        use.add_argument("--enable", dest="enabled", action="store_true", default=None, help="book on it again")
        use.add_argument("--disable", dest="enabled", action="store_false", default=None, help="book nothing new on it")

    def handle(self, *args: Any, **options: Any) -> None:
        host = Host.objects.filter(name=options["name"], removed=None).first()
        if host is None:
            raise CommandError(f"There is no host {options['name']}.")
        elsewhere = options["ssh"] is not None or bool(options["fingerprint"])
        if not elsewhere and options["enabled"] is None:
            raise CommandError("Nothing to change: give --ssh, --fingerprint, --enable or --disable.")
        try:
            ssh = self._address(host, options) if elsewhere else None
            host = actions.change_host(host, ssh=ssh, enabled=options["enabled"], by=None, now=clock.now())
        except Refused as refused:
            raise CommandError(refused.detail) from refused
        except ValueError as error:  # an address of no known form
            raise CommandError(str(error)) from error
        except GatewayError as error:
            raise CommandError(f"{host} is not changed: {error.what} {error.remedy}") from error
        where = f" at {host.address.ssh}" if host.address.ssh else ""
        self.stdout.write(f"{host} is{where}, {'in use' if host.enabled else 'out of use'}.")

    def _address(self, host: Host, options: dict[str, Any]) -> SSHAddress:
        """The new address, confirmed and answering in the host's name."""
        if host.kind != HostKind.SSH:
            raise Refused(f"{host} is {host.get_kind_display()}, not over SSH: remove it and add it again.")
        words = str(host.address.ssh) if options["ssh"] is None else options["ssh"]
        ssh = discovery.pinned(
            SSHAddress.parse(words),
            known=host.host_key,
            given=options["fingerprint"],
            repeat=shlex.join(["manage.py", "change_host", host.name, "--ssh", words]),
            ask=question(self.stdout),
        )
        meeting = discovery.meet(HostAddress(host.name, HostKind.SSH, ssh=ssh))
        if not meeting.obeyed and reading.machines_on(host).exists():
            raise Refused(
                f"{host} has machines, and what answers at {ssh} has never worked for this portal: it is another "
                "machine, or one without its memory.json. Look at the address."
            )
        differs = release.difference(meeting.release, settings.VERSION)
        if differs:
            self.stdout.write(differs)
        return ssh
