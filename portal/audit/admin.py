"""The audit, to look at."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from portal.audit.models import Entry


class ReadOnly:
    """A list to look at: rows are written by what people and hosts do."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Entry)
class EntryAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    list_display = ["at", "actor", "verb", "subject"]
    list_filter = ["verb"]
    search_fields = ["subject", "actor__username"]
