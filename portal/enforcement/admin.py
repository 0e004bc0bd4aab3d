"""What operators may look at. Nothing is edited here: these rows are what hosts said."""

from django.contrib import admin

from portal.audit.admin import ReadOnly
from portal.enforcement.models import HostState, StepLog


@admin.register(HostState)
class HostStateAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    list_display = ["host", "generation", "last_call", "last_success", "drift_seconds", "skipped"]


@admin.register(StepLog)
class StepLogAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["at", "host", "generation", "kind", "subject", "done"]
    list_filter = ["host", "kind", "done"]
