"""Tickets for consoles. The secret itself is never stored."""

from django.conf import settings
from django.db import models

from portal.accounts.models import ApiToken
from portal.bookings.models import Reservation
from portal.machines.models import VirtualMachine


class ConsoleTicket(models.Model):
    """A right to open one machine's screen once, for seconds. Either `session_key` or `token` says who asked."""

    digest = models.CharField(max_length=64, unique=True)  # SHA-256 of the secret
    machine = models.ForeignKey(VirtualMachine, on_delete=models.CASCADE, related_name="tickets")
    reservation = models.ForeignKey(Reservation, on_delete=models.CASCADE, related_name="tickets")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tickets")
    session_key = models.CharField(max_length=40, blank=True)
    token = models.ForeignKey(ApiToken, null=True, blank=True, on_delete=models.CASCADE, related_name="tickets")
    created = models.DateTimeField()
    expires = models.DateTimeField(db_index=True)
    used = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.user} to {self.machine} until {self.expires:%H:%M:%S}"
