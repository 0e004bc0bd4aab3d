"""Reads JSON documents once, at the edge: every wrong field is named, with what is wrong and what to send instead."""

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from vmctl.errors import VmctlError, bad_input

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

SCHEMA = 1

Json = dict[str, object]
"""A document, or a part of one, as it is printed."""

YEARS = range(2000, 2101)
A_UUID = "6f1f5f0e-8f0b-4a38-9d0a-0c4f5b1c2d3e"
LONGEST_NUMBER = 40
"""Digits; Python refuses some thousands with an error of its own, and no field takes so many."""
SECRET = re.compile(r"(^|\.)(seed|password_hash|ssh_keys|licence)(\.\d+)?$")
"""The places whose values are never repeated: what is wrong there may be a password in the clear."""


def load(text: str) -> object:
    """The value of a JSON text, or the line and column where it stops being JSON."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_int=_number, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise bad_input(
            f"The document is no JSON: line {error.lineno}, column {error.colno}: {error.msg}.",
            "Send one JSON object.",
        ) from error
    except RecursionError as error:
        raise bad_input("The document is nested too deeply.", "Send one JSON object as in docs/schemas/.") from error


def _no_constant(word: str) -> object:
    raise bad_input(f"The document has the number {word}, which JSON does not know.", "Send finite numbers.")


def _number(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise bad_input(
            f"The document has a number of {len(digits)} digits.", "Send numbers that docs/schemas/ allows."
        )
    return int(digits)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; of a key that stands twice nobody knows which was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise bad_input(f"The document has the field {shown(key)} twice in one object.", "Send every field once.")
    return found


class Fields:
    """A JSON object whose fields are taken one by one; `done` complains about what nobody asked for."""

    def __init__(self, value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise bad_input(
                f"{place or 'The document'} is {_told(place, value)}, not an object.", "Send an object: {…}."
            )
        self._fields = value
        self._place = place
        self._asked: set[str] = set()

    def place(self, key: str) -> str:
        """How a person finds a field: `machines[2].seed.user`."""
        return f"{self._place}.{key}" if self._place else key

    def wrong(self, key: str, remedy: str) -> VmctlError:
        """The complaint about a field that is there."""
        return bad_input(f"{self.place(key)} is {_told(self.place(key), self._fields[key])}.", remedy)

    def take(self, key: str) -> object:
        """A field that must be there."""
        self._asked.add(key)
        if key not in self._fields:
            raise bad_input(
                f"{self.place(key)} is missing.", "Send every field of docs/schemas/, null where it has none."
            )
        return self._fields[key]

    def maybe(self, key: str, take: Callable[[str], T]) -> T | None:
        """A field that must be there and may be null."""
        return None if self.take(key) is None else take(key)

    def text(self, key: str, pattern: str, remedy: str) -> str:
        """A text that matches `pattern` as a whole."""
        value = self.take(key)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self.wrong(key, remedy)
        return value

    def line(self, key: str, longest: int) -> str:
        """One line of printable text, as people write it."""
        value = self.take(key)
        if not isinstance(value, str) or len(value) > longest or not value.isprintable():
            raise self.wrong(key, f"Send one line of printable text, at most {longest} characters.")
        return value

    def lines(self, key: str, longest: int) -> tuple[str, ...]:
        """A list of lines."""
        value = self.take(key)
        if not isinstance(value, list):
            raise self.wrong(key, "Send a list of texts.")
        return tuple(
            Fields({str(number): item}, self.place(key)).line(str(number), longest) for number, item in enumerate(value)
        )

    def texts(self, key: str, pattern: str, remedy: str) -> tuple[str, ...]:
        """A list of texts that match `pattern`."""
        value = self.take(key)
        if not isinstance(value, list):
            raise self.wrong(key, "Send a list of texts.")
        return tuple(
            Fields({str(number): item}, self.place(key)).text(str(number), pattern, remedy)
            for number, item in enumerate(value)
        )

    def flag(self, key: str) -> bool:
        """true or false."""
        value = self.take(key)
        if not isinstance(value, bool):
            raise self.wrong(key, "Send true or false.")
        return value

    def whole(self, key: str, least: int, most: int) -> int:
        """A whole number in a range; true and 1.0 are none."""
        value = self.take(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(key, f"Send a whole number from {least} to {most}.")
        return value

    def uuid(self, key: str) -> str:
        """A UUID in its usual form, in small letters: the same machine is never written in two ways."""
        value = self.take(key)
        found = _uuid(value)
        if found is None:
            raise self.wrong(key, f"Send a UUID in small letters, like {A_UUID}.")
        return found

    def uuids(self, key: str) -> frozenset[str]:
        """A list of UUIDs as a set."""
        value = self.take(key)
        if not isinstance(value, list):
            raise self.wrong(key, "Send a list of UUIDs.")
        found = [_uuid(item) for item in value]
        if None in found:
            raise self.wrong(key, f"Send UUIDs in small letters, like {A_UUID}.")
        return frozenset(item for item in found if item)

    def word(self, key: str, words: type[E]) -> E:
        """One of a few words."""
        value = self.take(key)
        if not isinstance(value, str) or value not in list(words):
            raise self.wrong(key, f"Send one of: {', '.join(words)}.")
        return words(value)

    def time(self, key: str) -> datetime:
        """A moment with its offset, in the years the project knows."""
        value = self.take(key)
        found = parse_time(value)
        if found is None:
            raise self.wrong(key, "Send ISO 8601 with an offset, years 2000 to 2100, like 2026-12-01T10:00:00+01:00.")
        return found

    def objects(self, key: str) -> Iterable["Fields"]:
        """A list of objects, one after the other."""
        value = self.take(key)
        if not isinstance(value, list):
            raise self.wrong(key, "Send a list of objects.")
        for number, item in enumerate(value):
            yield Fields(item, f"{self.place(key)}[{number}]")

    def object(self, key: str) -> "Fields":
        """An object inside this one."""
        return Fields(self.take(key), self.place(key))

    def done(self) -> None:
        """Refuse fields that nobody asked for: what is not understood must not be thought to be obeyed."""
        for key in self._fields:
            if key not in self._asked:
                raise bad_input(
                    f"{self.place(key)} is a field that vmctl does not know.",
                    "Leave it out, or update vmctl.",
                )


def _told(place: str, value: object) -> str:
    """What stands at a place, as it may go into a log."""
    return "not as it should be" if SECRET.search(place) else shown(value)


def shown(value: object) -> str:
    """A value as it may stand in a sentence; what an object or a list of other than numbers holds stays untold."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list) and not all(isinstance(item, int | None) for item in value):
        return "a list"
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 80 else f"{text[:77]}…"


def parse_time(value: object) -> datetime | None:
    """A moment with an offset, or None."""
    if not isinstance(value, str) or "T" not in value:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo is not None and found.year in YEARS else None


def _uuid(value: object) -> str | None:
    if not isinstance(value, str) or len(value) != 36:
        return None
    try:
        return value if str(uuid.UUID(value)) == value else None
    except ValueError:
        return None
