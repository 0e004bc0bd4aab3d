"""The only writer of the audit."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Model

from portal.audit.models import Entry

if TYPE_CHECKING:
    from portal.accounts.models import User


def record(by: "User | None", verb: str, subject: Model | str, *, now: datetime, **detail: Any) -> Entry:
    """Write down a deed, in the same transaction as the deed. `detail` is JSON; secrets have no place in it."""
    return Entry.objects.create(at=now, actor=by, verb=verb, subject=subject_of(subject), detail=detail)


def subject_of(thing: Model | str) -> str:
    """How the audit names a thing: "reservation:<id>"."""
    return thing if isinstance(thing, str) else f"{thing._meta.model_name}:{thing.pk}"
