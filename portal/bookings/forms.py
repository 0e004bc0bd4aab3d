"""The booking form: the same for the page without a script and for the calendar's dialog."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone

from portal.accounts.models import Project, User
from portal.bookings import rules
from portal.bookings.rules import Wish
from portal.errors import Refused
from portal.inventory.models import Flavor, Image
from portal.machines.models import VirtualMachine

SELECT = {"class": "form-select"}


def _choose(label: str, **more: Any) -> dict[str, Any]:
    return {"label": label, "widget": forms.Select(attrs=SELECT)} | more


def _moment(label: str, **more: Any) -> forms.DateTimeField:
    """Wall clock of the page's zone, or ISO 8601 with an offset; a time that the clocks skip or repeat is refused."""
    widget = forms.DateTimeInput(
        format="%Y-%m-%dT%H:%M",
        attrs={"type": "datetime-local", "class": "form-control", "step": settings.SLOT_MINUTES * 60},
    )
    return forms.DateTimeField(
        label=label, widget=widget, error_messages={"invalid": "Write it like 2026-12-01T14:00."}, **more
    )


class FlavorChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # no subscript at run time
    """A size, with what comes with the share."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.vcpus} vCPU, {obj.memory_mib / 1024:.3g} GiB memory, {obj.disk_gib} GiB disk)"


class MachineChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # no subscript at run time
    """One of the machines that are kept."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.hostname} ({obj.image.name}, {obj.flavor.name})"


class BookForm(forms.Form):
    """What a person wishes: a flavor, a machine or an image for a new one, a period."""

    use_required_attribute = False  # the server's sentences are better than the browser's

    flavor = FlavorChoice(
        Flavor.objects.filter(enabled=True).order_by("memory_mib", "name"),
        to_field_name="slug",
        empty_label=None,
        **_choose("Size"),
    )
    machine = MachineChoice(
        VirtualMachine.objects.none(),
        required=False,
        empty_label="A new machine",
        **_choose(
            "Machine", help_text="A machine of yours keeps its disk between bookings; its image stays what it is."
        ),
    )
    image = forms.ModelChoiceField(
        Image.objects.filter(enabled=True), to_field_name="slug", required=False, empty_label=None, **_choose("Image")
    )
    project = forms.ModelChoiceField(Project.objects.none(), empty_label=None, **_choose("Project"))
    start = _moment("Start", required=False, help_text="Leave it empty to start now.")
    end = _moment("End")
    disposable = forms.BooleanField(
        label="Disposable: delete its disk at the end",
        required=False,
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        machines = VirtualMachine.objects.kept().filter(owner=user, disposable=False).select_related("image", "flavor")
        self.has_machines = machines.exists()
        self._choices("machine").queryset = machines
        self._choices("project").queryset = Project.objects.filter(members=user)
        for name, field in self.fields.items():
            if self.is_bound and name in self.errors:
                field.widget.attrs |= {"class": f"{field.widget.attrs['class']} is-invalid"}

    def _choices(self, name: str) -> "forms.ModelChoiceField[Any]":
        field = self.fields[name]
        assert isinstance(field, forms.ModelChoiceField)
        return field

    def _offers(self, name: str) -> bool:
        choices = self._choices(name).queryset
        return choices is not None and choices.exists()

    @property
    def why_not(self) -> str:
        """What is missing before anybody can book; empty when nothing is."""
        if not self._offers("project"):
            return "You are in no project yet, and every booking counts for one."
        if not self._offers("flavor"):
            return "There are no sizes (flavors) to choose from yet."
        if not self._offers("image") and not self.has_machines:
            return "There are no images to start a machine from yet."
        return ""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("machine"):
            return cleaned | {"image": None, "project": None, "disposable": False}
        if "image" not in self.errors and not cleaned.get("image"):
            self.add_error("image", "Choose an image for the new machine.")
        return cleaned

    def wish(self) -> Wish:
        """The cleaned form as the action takes it."""
        return Wish(**self.cleaned_data)

    def refuse(self, refused: Refused) -> str:
        """Puts a refusal next to the field it is about. Answers what is left to say above the form."""
        named = next((name for name in refused.fields if name in self.fields), None)
        if named is None:
            return refused.detail
        self.add_error(named, refused.detail)
        return ""


def first_guess(user: User, asked: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """What the form shows at first: what the address asks for, else two hours from the next step on."""
    step = timedelta(minutes=settings.SLOT_MINUTES)
    begin = _asked_time(asked.get("start")) or _on_day(asked.get("day"), now)
    end = _asked_time(asked.get("end")) or rules.next_step(
        (begin or now) + max(2 * timedelta(hours=1), step), rules.policy()
    )
    return {name: asked[name] for name in ("flavor", "machine", "image", "project") if asked.get(name)} | {
        "start": begin,
        "end": end,
        "disposable": asked.get("disposable") == "on",
    }


def _asked_time(text: str | None) -> datetime | None:
    try:
        moment: datetime | None = forms.DateTimeField(required=False).clean(text)
    except ValidationError:  # an address that somebody mended by hand; the form shows its own guess
        return None
    return moment


def _on_day(text: str | None, now: datetime) -> datetime | None:
    """Nine o'clock on that day; nothing for today and for what is past."""
    try:
        morning = timezone.make_aware(datetime.combine(date.fromisoformat(text or ""), time(9)))
    except ValueError:
        return None
    return morning if morning > now else None
