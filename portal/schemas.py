"""What all of the API's documents share: times, strictness, pages."""

import re
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import QuerySet
from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
MOST_ITEMS = 200

T = TypeVar("T")


def _moment(value: Any) -> datetime:
    """ISO 8601 with offset and nothing else: no epoch numbers, no times without a zone."""
    if not isinstance(value, str) or not ISO.fullmatch(value):
        raise ValueError("write times in ISO 8601 with offset, like 2027-03-01T10:00:00+01:00")
    return datetime.fromisoformat(value)


Moment = Annotated[datetime, BeforeValidator(_moment)]


class Document(Schema):
    """A request body: a field that is not known is refused, not overlooked."""

    model_config = ConfigDict(extra="forbid")


class Paging(Schema):
    """Which part of a list."""

    limit: int = Field(50, ge=1, le=MOST_ITEMS)
    offset: int = Field(0, ge=0, le=1_000_000)


class Listed(Schema, Generic[T]):
    """Part of a list, and how long the whole is."""

    items: list[T]
    count: int


def part(rows: "QuerySet[Any]", paging: Paging) -> dict[str, Any]:
    """A Listed of these rows, which must have a fixed order."""
    return {"items": list(rows[paging.offset : paging.offset + paging.limit]), "count": rows.count()}
