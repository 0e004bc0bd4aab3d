"""Reservations, to look at and to end."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest

from portal import clock
from portal.accounts.access import caller
from portal.audit.admin import ReadOnly
from portal.bookings import actions
from portal.bookings.models import Reservation
from portal.errors import Refused


@admin.register(Reservation)
class ReservationAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    list_display = ["id", "owner", "project", "machine", "flavor", "status", "start", "end"]
    list_filter = ["status", "project"]
    search_fields = ["owner__username", "machine__hostname"]
    exclude = ["password_hash", "password_sealed"]
    actions = ["end"]

    @admin.action(description="Cancel, or end now")
    def end(self, request: HttpRequest, queryset: Any) -> None:
        for reservation in queryset:
            try:
                actions.cancel(reservation, by=caller(request), now=clock.now())
            except Refused as refused:
                self.message_user(request, f"{reservation.pk}: {refused.detail}", messages.ERROR)
