"""What operators may look at. Nothing is edited here: these rows are what hosts said."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from portal.enforcement.models import HostState, StepLog


class ReadOnly:
    """A list to look at."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(HostState)
class HostStateAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    list_display = ["host", "generation", "last_call", "last_success", "drift_seconds", "skipped"]


@admin.register(StepLog)
class StepLogAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["at", "host", "generation", "kind", "subject", "done"]
    list_filter = ["host", "kind", "done"]
