"""What a person is told when something is refused: one sentence, one code, and what to do instead."""

from collections.abc import Mapping, Sequence


class Refused(Exception):
    """A refusal that pages show as it is and the API answers in its one shape.

    `code` is for programs, `detail` one sentence for people, `fields` names the faulty inputs, `suggestions` are things
    that would work (next free start times in ISO 8601).
    """

    code = "rule"
    status = 409

    def __init__(
        self, detail: str, *, fields: Mapping[str, str] | None = None, suggestions: Sequence[str] = (), code: str = ""
    ) -> None:
        super().__init__(detail)
        self.code = code or self.code
        self.detail = detail
        self.fields = dict(fields or {})
        self.suggestions = list(suggestions)


class WrongInput(Refused):
    """The request can be read, but its content makes no sense."""

    code = "invalid"
    status = 422


class Forbidden(Refused):
    """The thing may be seen, but this may not be done to it."""

    code = "forbidden"
    status = 403


class NotVisible(Refused):
    """The thing does not exist, or not for this person: the two look alike on purpose."""

    code = "not_found"
    status = 404
