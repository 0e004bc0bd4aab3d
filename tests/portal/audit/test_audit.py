"""The audit is written beside the deed and never changed."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from portal.audit import actions
from portal.audit.models import Entry
from tests import make
from tests.make import NOW, World


def test_entries_are_never_changed_or_removed(db: None) -> None:
    ada = make.user("ada")
    entry = actions.record(ada, "tried", "thing:1", now=NOW, why="to see")
    for deed in (entry.delete, lambda: Entry.objects.update(verb="was not"), Entry.objects.all().delete):
        with pytest.raises(IntegrityError, match="never changed or removed"), transaction.atomic():
            deed()
    assert Entry.objects.get(pk=entry.pk).verb == "tried"
    with pytest.raises(ProtectedError):
        ada.delete()


def test_what_operators_do_is_written_down_with_their_name(world: World) -> None:
    reservation = world.book()
    verbs = list(Entry.objects.filter(subject=f"reservation:{reservation.pk}").values_list("verb", "actor__username"))
    assert verbs == [("booked", "ada")]
    secrets = ("password", reservation.password_hash, reservation.password_sealed)
    assert not [e for e in Entry.objects.all() if any(secret in str(e.detail) for secret in secrets)]
