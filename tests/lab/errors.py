"""What goes wrong with the lab itself, as one sentence with what to do, or as a command's own output."""


class LabError(Exception):
    """The lab cannot do it; the text says why.  Of a command in the lab: what it printed."""
