"""What libvirt counts of a running domain. Pure values; hypervisor.py reads them, usage.py shows them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DomainStatistics:
    """Running totals since the domain started. None: libvirt or the guest does not tell; never 0 for that."""

    name: str
    uuid: str
    cpu_ns: int | None = None  # CPU time of all its virtual CPUs
    vcpus: int | None = None
    memory_mib: int | None = None  # what it takes of the host
    read_bytes: int | None = None  # all disks together
    written_bytes: int | None = None
    received_bytes: int | None = None  # all network cards together
    sent_bytes: int | None = None
    users: tuple[str, ...] | None = None  # logged in, as the guest's agent says
