"""The only writer of notices."""

from datetime import datetime
from typing import TYPE_CHECKING

from portal import nudge
from portal.notices.models import Level, Notice

if TYPE_CHECKING:
    from portal.accounts.models import User


def tell(user: "User", text: str, *, now: datetime, url: str = "", level: Level = Level.INFO) -> Notice:
    """Put a sentence on somebody's pages."""
    notice = Notice.objects.create(user=user, text=text, url=url, level=level, created=now)
    nudge.user(user.pk, url=url)
    return notice


def mark_read(user: "User", *, now: datetime) -> int:
    """All notices of this person are read; how many were not."""
    return Notice.objects.filter(user=user, read=None).update(read=now)
