"""How times and periods are written on every page: in the page's zone, which is named, and readable by machines."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M}"


def _day(moment: datetime) -> str:
    return f"{moment:%a} {moment.day} {moment:%b %Y}"


@register.simple_tag
def moment(value: datetime) -> SafeString:
    """A moment: "Tue 1 Dec 2026, 10:00 CET"."""
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}">{}, {} {}</time>',
        local.isoformat(timespec="seconds"),
        _day(local),
        _clock(local),
        local.tzname(),
    )


@register.simple_tag
def period(start: datetime, end: datetime) -> SafeString:
    """A period: "Tue 1 Dec 2026, 10:00–12:00 CET", with the second day named where there is one."""
    return format_html('<time datetime="{}">{}</time>', _machine(start, end), in_words(start, end))


def in_words(start: datetime, end: datetime) -> str:
    """The period as plain text; both abbreviations where the clocks change inside it."""
    first, last = timezone.localtime(start), timezone.localtime(end)
    zone = f" {first.tzname()}" if first.tzname() != last.tzname() else ""
    until = f"–{_clock(last)}" if first.date() == last.date() else f" – {_day(last)}, {_clock(last)}"
    return f"{_day(first)}, {_clock(first)}{zone}{until} {last.tzname()}"


def _machine(start: datetime, end: datetime) -> str:
    return f"{start.isoformat(timespec='seconds')}/{end.isoformat(timespec='seconds')}"
