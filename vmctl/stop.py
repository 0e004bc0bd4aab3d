"""Stops a machine: softly, as often as needed, or at once."""

from dataclasses import replace
from datetime import datetime

from vmctl import domain
from vmctl.hypervisor import Hypervisor
from vmctl.model import ObservedMachine


def ask(hypervisor: Hypervisor, machine: ObservedMachine, now: datetime) -> None:
    """Ask it to shut down; its mark remembers when it was first asked."""
    if machine.mark.asked is None:
        hypervisor.set_mark(machine.machine, domain.mark_xml(replace(machine.mark, asked=now)))
    hypervisor.ask_stop(machine.machine)


def force(hypervisor: Hypervisor, machine: ObservedMachine) -> None:
    """Take its power away."""
    hypervisor.force_stop(machine.machine)
