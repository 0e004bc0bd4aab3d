"""Stops a machine: softly, as often as needed, or at once."""

from dataclasses import replace
from datetime import datetime

from vmctl import mark as marks
from vmctl.hypervisor import Hypervisor
from vmctl.observation import ObservedMachine


def ask(hypervisor: Hypervisor, machine: ObservedMachine, now: datetime) -> None:
    """Ask it to shut down; its mark remembers when it was first asked."""
    try:
        if machine.mark.asked is None:
            hypervisor.set_mark(machine.machine, marks.to_xml(replace(machine.mark, asked=now)))
    finally:
        hypervisor.ask_stop(machine.machine)  # each of the two is worth having without the other


def force(hypervisor: Hypervisor, machine: ObservedMachine) -> None:
    """Take its power away."""
    hypervisor.force_stop(machine.machine)
