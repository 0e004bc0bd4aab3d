"""Why a booking, a cancellation or a change is refused."""

from portal.errors import Refused


class NoCapacity(Refused):
    """No share is free for the whole period; `suggestions` are start times at which one is."""

    code = "no_capacity"


class RuleBroken(Refused):
    """A rule of the house forbids it: too long, too far ahead, in the past, machine in use."""

    code = "rule"


class Busy(Refused):
    """Others are writing at this moment; the same request may work in a second."""

    code = "busy"


class WrongState(Refused):
    """The reservation's state does not allow it (any more)."""

    code = "state"


class Changed(Refused):
    """Somebody changed the reservation since the caller read it."""

    code = "changed"
