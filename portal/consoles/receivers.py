"""What may take a console's right away: told to the open sockets on commit; they look for themselves."""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.signals import user_logged_out
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from portal import nudge
from portal.accounts.models import Membership, User
from portal.bookings import signals as bookings


@receiver(bookings.changed)
def reservations_changed(sender: Any, host_ids: Iterable[int], **kwargs: Any) -> None:
    """A reservation on these hosts has started, ended or moved."""
    for host_id in host_ids:
        nudge.recheck(nudge.consoles_on_host(host_id))


@receiver(user_logged_out)
def logged_out(sender: Any, user: User | None, **kwargs: Any) -> None:
    """One session of this person ends; user is None when nobody was logged in."""
    if user is not None:
        nudge.recheck(nudge.sockets_of_user(user.pk))


@receiver([post_save, post_delete], sender=Membership)
def membership_changed(sender: Any, instance: Membership, **kwargs: Any) -> None:
    """Somebody came into a project, or left it."""
    nudge.recheck(nudge.sockets_of_user(instance.user_id))


@receiver(post_save, sender=User)
def user_changed(sender: Any, instance: User, **kwargs: Any) -> None:
    """Somebody was shut out, or has a new password."""
    nudge.recheck(nudge.sockets_of_user(instance.pk))
