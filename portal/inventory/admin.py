"""Hosts, GPUs, flavors and images, for operators. Every write goes through actions."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html_join

from portal import clock
from portal.accounts.access import caller
from portal.audit.admin import ReadOnly
from portal.host_address import fingerprint
from portal.inventory import actions, sight
from portal.inventory.forms import HostForm
from portal.inventory.models import GPU, Flavor, Holding, Host, HostKind, Image


@admin.register(Host)
class HostAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    """Name, kind and layout are chosen once: folders, disks and marks on the host bear them.

    Nothing is deleted here: `manage.py remove_host` looks for machines and bookings first.
    """

    form = HostForm
    list_display = ["name", "kind", "reached", "enabled"]
    fieldsets = [
        (None, {"fields": ["name", "kind", "layout", "enabled", "simulated_gpus"]}),
        (
            "Over SSH",
            {
                "fields": ["ssh_user", "ssh_host", "ssh_port", "pinned", "host_key"],
                "description": "manage.py add_host asks the host for its key and for its GPUs before anything is "
                "stored; here nobody is asked, so look at Hosts afterwards.",
            },
        ),
        ("What the host said", {"fields": ["facts", "created"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(removed=None)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pinned", "facts", "created", *(["name", "kind", "layout"] if obj else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="over SSH")
    def reached(self, host: Host) -> str:
        return str(host.address.ssh or "")

    @admin.display(description="pinned host key")
    def pinned(self, host: Host) -> str:
        return fingerprint(host.host_key) if host.host_key else "none"

    def save_model(self, request: HttpRequest, obj: Host, form: Any, change: bool) -> None:
        by, now = caller(request), clock.now()
        if change:
            actions.save_host(obj, by=by, now=now)
        else:
            made = actions.add_host(
                obj.name,
                HostKind(obj.kind),
                layout=obj.layout,
                ssh=obj.address.ssh,
                simulated_gpus=obj.simulated_gpus,
                by=by,
                now=now,
            )
            obj.pk = made.pk


SEEN = ("host", "address", "model", "memory_mib", "now", "regimes", "at_once", "iommu_key", "seen")


@admin.register(GPU)
class GPUAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """What vmctl found; an operator decides whether it is booked, and how it should be set."""

    list_display = ["address", "host", "model", "wanted_regime", "regimes", "at_once", "enabled", "seen"]
    list_filter = ["host", "enabled", "wanted_regime"]
    fieldsets = [
        (None, {"fields": ["enabled"]}),
        (
            "How the card should be set",
            {
                "fields": actions.WISHED,
                "description": "The host changes what differs as soon as nobody uses the card; until then it waits.",
            },
        ),
        ("What the host found", {"fields": SEEN}),
    ]
    readonly_fields = SEEN
    actions = ["quarantine", "lift_quarantine"]

    @admin.display(description="handles", ordering="handles")
    def at_once(self, gpu: GPU) -> str:
        return "unknown" if gpu.handles is None else str(gpu.handles)

    @admin.display(description="now")
    def now(self, gpu: GPU) -> str:
        said = [*sight.words(gpu.facts), sight.reason(gpu.facts), *sight.gaps(gpu.facts)]
        return format_html_join("", "<div>{}</div>", ((text,) for text in said if text))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.base_fields["ecc"].widget.choices = [("unknown", "as it is"), ("true", "on"), ("false", "off")]
        form.base_fields["offered_types"].widget.attrs["class"] = "vLargeTextField"
        return form

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: GPU, form: Any, change: bool) -> None:
        actions.save_gpu(obj, by=caller(request), now=clock.now())

    @admin.action(description="Quarantine: nobody can book it")
    def quarantine(self, request: HttpRequest, queryset: Any) -> None:
        for gpu in queryset:
            actions.quarantine(gpu, why="set by an operator", by=caller(request), now=clock.now())

    @admin.action(description="Lift the quarantine")
    def lift_quarantine(self, request: HttpRequest, queryset: Any) -> None:
        for gpu in queryset:
            actions.lift_quarantine(gpu, by=caller(request), now=clock.now())


class ChoiceAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Flavors and images: what people choose from."""

    prepopulated_fields = {"slug": ["name"]}

    def save_model(self, request: HttpRequest, obj: Flavor | Image, form: Any, change: bool) -> None:
        actions.save_choice(obj, by=caller(request), now=clock.now())

    def delete_model(self, request: HttpRequest, obj: Flavor | Image) -> None:
        actions.delete_choice(obj, by=caller(request), now=clock.now())

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for choice in queryset:
            self.delete_model(request, choice)


@admin.register(Flavor)
class FlavorAdmin(ChoiceAdmin):
    list_display = ["slug", "name", "regime", "vgpu_types", "vcpus", "memory_mib", "disk_gib", "enabled"]


@admin.register(Image)
class ImageAdmin(ChoiceAdmin):
    list_display = ["slug", "name", "file", "user", "min_disk_gib", "firmware", "tpm", "licence", "enabled"]


@admin.register(Holding)
class HoldingAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["gpu", "kind", "detail", "since"]
    list_filter = ["kind"]
