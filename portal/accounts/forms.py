"""Forms about people: log-in, profile, tokens."""

import re
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm, UserChangeForm
from django.core.exceptions import ValidationError
from django.utils import timezone

from portal import clock
from portal.accounts import actions
from portal.accounts.models import Scope

# What sshd reads as a key: kind, base64, perhaps a comment of printable ASCII. Options before it are not for a guest.
SSH_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/]{40,}={0,2}( [ -~]{1,200})?"
)
MOST_KEYS = 20


class LogInForm(AuthenticationForm):
    """Name and password. Says so when there were too many tries, whether or not the password is right now."""

    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "This name and password do not fit together. Upper and lower case matter.",
        "inactive": "This account is closed. An operator can tell you why.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["class"] = "form-control"

    def get_invalid_login_error(self) -> ValidationError:
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        until = actions.locked_until(self.cleaned_data.get("username") or "", address, clock.now())
        if until is None:
            return super().get_invalid_login_error()
        local = timezone.localtime(until)
        return ValidationError(
            f"Too many tries with this name from here. Wait until {local:%H:%M:%S} {local.tzname()}, then try.",
            code="throttled",
        )


class ProfileForm(forms.Form):
    """What people may change about themselves."""

    time_zone = forms.ChoiceField(
        label="Time zone",
        required=False,
        help_text="Pages show times in this zone and read what you type in it. Your browser's own zone is never used.",
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    ssh_keys = forms.CharField(
        label="SSH keys",
        required=False,
        max_length=20_000,
        help_text="One public key a line, like in ~/.ssh/id_ed25519.pub. Machines that start from now on get them.",
        widget=forms.Textarea(
            attrs={"class": "form-control code", "rows": 4, "spellcheck": "false", "autocomplete": "off"}
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zones = [
            (zone, zone.replace("_", " "))
            for zone in sorted(available_timezones())
            if "/" in zone and not zone.startswith("Etc/")
        ]
        zone_field = self.fields["time_zone"]
        assert isinstance(zone_field, forms.ChoiceField)
        zone_field.choices = [("", f"The site's: {settings.TIME_ZONE}"), ("UTC", "UTC"), *zones]

    def clean_ssh_keys(self) -> str:
        return read_keys(self.cleaned_data["ssh_keys"])


class PersonForm(UserChangeForm):  # type: ignore[type-arg]  # no subscript at run time
    """A person as operators edit them. A zone or key that means nothing would reach hosts, so it ends here, too."""

    def clean_ssh_keys(self) -> str:
        return read_keys(self.cleaned_data["ssh_keys"])

    def clean_time_zone(self) -> str:
        zone: str = self.cleaned_data["time_zone"]
        if zone and zone not in available_timezones():
            raise ValidationError("This is no time zone; write it like Europe/Berlin, or leave it empty.")
        return zone


def read_keys(text: str) -> str:
    """Public keys, one a line, without empty lines and the like. Raises ValidationError that names the wrong line."""
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if len(keys) > MOST_KEYS:
        raise ValidationError(f"At most {MOST_KEYS} keys, please.")
    for number, key in enumerate(keys, start=1):
        if not SSH_KEY.fullmatch(key):
            raise ValidationError(
                f"Line {number} is no public SSH key. One begins with ssh-ed25519 or ssh-rsa, and its comment has "
                "ASCII characters only. Keep the private ones to yourself."
            )
    return "\n".join(keys)


class TokenForm(forms.Form):
    """A new API token."""

    name = forms.CharField(
        label="Name",
        max_length=80,
        help_text="What it is for; the list shows it.",
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label="It may",
        choices=[
            (Scope.READ, "read: see flavors, images, machines and reservations"),
            (Scope.BOOK, "book: book, end and cancel"),
            (Scope.CONSOLE, "console: open the screens of your machines"),
        ],
        initial=[Scope.READ],
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
        error_messages={"required": "Choose at least one thing that it may do."},
    )
