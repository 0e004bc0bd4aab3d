"""People, projects and tokens, for operators. Every write goes through actions."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest, HttpResponse

from portal import clock
from portal.accounts import actions
from portal.accounts.access import caller
from portal.accounts.forms import PersonForm
from portal.accounts.models import ApiToken, Membership, Project, User
from portal.audit import actions as audit
from portal.audit.admin import ReadOnly


@admin.register(User)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]  # not generic at run time
    """People are closed (is_active off), never deleted: the audit names them."""

    form = PersonForm
    list_display = ["username", "email", "is_active", "is_staff"]
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "time_zone", "ssh_keys")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser")}),
    )
    filter_horizontal = ()
    list_filter = ("is_active", "is_staff")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        actions.save_user(obj, by=caller(request), now=clock.now())

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        answer = super().user_change_password(request, id, form_url)
        if request.method == "POST" and answer.status_code == 302:
            audit.record(caller(request), "set password", f"user:{id}", now=clock.now())
        return answer


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    search_fields = ["name"]

    def save_model(self, request: HttpRequest, obj: Project, form: Any, change: bool) -> None:
        actions.save_project(obj, by=caller(request), now=clock.now())

    def delete_model(self, request: HttpRequest, obj: Project) -> None:
        actions.delete_project(obj, by=caller(request), now=clock.now())

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for project in queryset:
            self.delete_model(request, project)


@admin.register(Membership)
class MembershipAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["project", "user", "role"]
    list_filter = ["project"]

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        actions.save_membership(obj, by=caller(request), now=clock.now())

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        actions.delete_membership(obj, by=caller(request), now=clock.now())

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for membership in queryset.select_related("project", "user"):
            self.delete_model(request, membership)


@admin.register(ApiToken)
class TokenAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["name", "user", "scopes", "created", "expires", "last_used", "revoked"]
    fields = ["name", "user", "scopes", "created", "expires", "last_used", "revoked"]  # not even the digest
    actions = ["revoke"]

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        for token in queryset:
            actions.revoke_token(token, by=caller(request), now=clock.now())
