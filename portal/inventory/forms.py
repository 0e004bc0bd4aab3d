"""A host as an operator writes it in the admin."""

from typing import Any

from django import forms

from portal.errors import WrongInput
from portal.host_address import KEY_TYPES
from portal.inventory import actions
from portal.inventory.models import Host, HostKind


class HostForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """The pinned key goes with the address: whoever writes another host or port must say by which key it is known."""

    host_key = forms.CharField(
        required=False,
        max_length=5000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField"}),
        help_text="TYPE BASE64, as a line of ssh-keyscan or of the host's /etc/ssh/ssh_host_ed25519_key.pub. "
        "Left empty, the pinned key stays; where host or port changes it must be given.",
    )

    class Meta:
        model = Host
        fields = ["name", "kind", "layout", "ssh_user", "ssh_host", "ssh_port", "host_key", "simulated_gpus", "enabled"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pinned = self.instance.host_key
        self.initial["host_key"] = ""

    def clean_name(self) -> str:
        """Only a name that is in use is taken; that of a removed host brings it back."""
        name: str = self.cleaned_data["name"]
        try:
            actions.check_vacant(name)
        except WrongInput as taken:
            raise forms.ValidationError(taken.detail) from taken
        return name

    def clean(self) -> dict[str, Any]:
        """The key that was given, or the one that is pinned where the address is the same."""
        given = _key(self.cleaned_data.get("host_key") or "")
        kind = self.cleaned_data.get("kind") or self.instance.kind
        moved = bool({"ssh_host", "ssh_port"} & set(self.changed_data))
        if kind == HostKind.SSH and not given and (moved or not self._pinned):
            self.add_error("host_key", "Give the host key of this address, so that nobody else can answer there.")
        return self.cleaned_data | {"host_key": given or ("" if moved else self._pinned)}


def _key(line: str) -> str:
    """The key alone of a line as ssh-keyscan and public key files have it: the host's name or a comment goes."""
    words = line.split()
    if len(words) == 3:
        words = words[1:] if words[1] in KEY_TYPES else words[:2]
    return " ".join(words)
