"""What NVIDIA's module wrote into the kernel's log about cards: how their time is shared, at driver load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from vmctl.card import Policy, Scheduler
from vmctl.errors import VmctlError
from vmctl.gpus.address import normalise
from vmctl.host import Host

LIMIT = 3.0
POLICY = re.compile(r"NVRM: GPU at (\S+) has software scheduler \w+ with policy (\w+)\.")
TIME_SLICE = re.compile(r"NVRM: Software scheduler timeslice set to (\d+) ms\.")


class KernelLog:
    """Read once, when somebody asks."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def scheduler(self, address: str) -> Scheduler | None:
        """A card's policy; None: the log does not say, may not be read, or began anew since."""
        return self._schedulers.get(address)

    @cached_property
    def _schedulers(self) -> Mapping[str, Scheduler]:
        try:
            return schedulers(self._host.run(["dmesg"], limit=LIMIT).output)
        except VmctlError:
            return {}


def schedulers(text: str) -> Mapping[str, Scheduler]:
    """The policy of each card by address; the line about a time slice belongs to the card named before it."""
    found: dict[str, Scheduler] = {}
    last = None
    for line in text.splitlines():
        policy, time_slice = POLICY.search(line), TIME_SLICE.search(line)
        if policy is not None:
            last = _address(policy[1])
            name = policy[2].lower()
            if last is not None and name in list(Policy):
                found[last] = Scheduler(Policy(name))
        elif time_slice is not None and last in found:
            found[last] = Scheduler(found[last].policy, int(time_slice[1]) * 1000)
    return found


def _address(text: str) -> str | None:
    try:
        return normalise(text)
    except ValueError:
        return None
