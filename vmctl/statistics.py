"""What libvirt counts of a running domain. Pure values; hypervisor.py reads them, usage.py shows them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


def counted(record: Mapping[str, Any]) -> DomainStatistics:
    """A record of virConnectGetAllDomainStats, with `name` and `uuid`, in our words."""
    rss, current = _number(record, "balloon.rss"), _number(record, "balloon.current")
    kib = rss if rss is not None else current
    return DomainStatistics(
        name=str(record["name"]),
        uuid=str(record["uuid"]),
        cpu_ns=_number(record, "cpu.time"),
        vcpus=_number(record, "vcpu.current"),
        memory_mib=None if kib is None else kib // 1024,
        read_bytes=_sum(record, "block", "rd.bytes"),
        written_bytes=_sum(record, "block", "wr.bytes"),
        received_bytes=_sum(record, "net", "rx.bytes"),
        sent_bytes=_sum(record, "net", "tx.bytes"),
    )


def _number(record: Mapping[str, Any], key: str) -> int | None:
    value = record.get(key)
    return value if isinstance(value, int) else None


def _sum(record: Mapping[str, Any], group: str, name: str) -> int | None:
    """The total over all devices of a kind; None where libvirt tells nothing of them."""
    pattern = re.compile(rf"{group}\.\d+\.{re.escape(name)}")
    found = [value for key, value in record.items() if pattern.fullmatch(key) and isinstance(value, int)]
    return sum(found) if found else None
