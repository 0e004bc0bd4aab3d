"""How a host is reached: the fields of an address over SSH, and what they have to be."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from portal.host_address import HostAddress, SSHAddress

SSH = "ssh"  # the kind of a host that has these fields


def _over_ssh(yes: bool) -> models.Q:
    """Reached over SSH, with all that this takes; or not, with nothing of it."""
    if yes:
        gap = models.Q(ssh_user="") | models.Q(ssh_host="") | models.Q(host_key="") | models.Q(ssh_port=None)
        return models.Q(kind=SSH) & ~gap
    return ~models.Q(kind=SSH) & models.Q(ssh_user="", ssh_host="", host_key="", ssh_port=None)


class Reached(models.Model):
    """The part of a host that says where it is. A class of its own needs `name`, `kind` and `layout` beside it."""

    name: Any
    kind: Any
    layout: Any
    ssh_user = models.CharField("SSH user", max_length=32, blank=True)
    ssh_host = models.CharField("SSH host", max_length=253, blank=True, help_text="A name, an IPv4 or an IPv6 address.")
    ssh_port = models.PositiveIntegerField("SSH port", null=True, blank=True)
    host_key = models.TextField(
        blank=True, help_text="The only key by which the host is known: TYPE BASE64, as ssh-keyscan prints it."
    )

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                name="an_address_for_ssh_alone",
                condition=_over_ssh(True) | _over_ssh(False),
                violation_error_message="A host over SSH needs user, host, port and host key; others have none.",
            ),
        ]

    def clean(self) -> None:
        """An address of no known form is refused here, before any program could see it."""
        try:
            self._ssh()
        except ValueError as error:
            raise ValidationError(str(error)) from error

    @property
    def address(self) -> HostAddress:
        """Where it is and how it is reached, as the gateway takes it."""
        return HostAddress(self.name, self.kind, self.layout, self._ssh())

    def _ssh(self) -> SSHAddress | None:
        if self.kind != SSH:
            return None
        return SSHAddress(self.ssh_user, self.ssh_host, self.ssh_port or 0, self.host_key)
