"""Machines, to look at."""

from django.contrib import admin

from portal.audit.admin import ReadOnly
from portal.machines.models import VirtualMachine


@admin.register(VirtualMachine)
class MachineAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    list_display = ["hostname", "owner", "project", "host", "state", "disposable", "deleted"]
    list_filter = ["state", "host"]
    search_fields = ["hostname", "owner__username"]
