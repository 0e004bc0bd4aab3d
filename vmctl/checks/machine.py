"""The host as a machine: KVM, memory, disk, clock."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from vmctl import kvm
from vmctl.checks import distribution, units
from vmctl.checks.finding import Evidence, Verdict, failed, not_applicable, passed, unknown, warned
from vmctl.checks.look import AS_ROOT, LVS, Look
from vmctl.errors import Code, VmctlError
from vmctl.host import TIME_ERROR

GIB = 2**30
LOW_GIB, TOO_LOW_GIB = 10, 1
THIN_FULL, THIN_TOO_FULL = 80.0, 95.0
"""Per cent of a thin pool: a full one gives its machines write errors."""
DAEMONS = ("virtqemud", "libvirtd")
RAISES_LIMITS = 24  # CAP_SYS_RESOURCE
LIMITS_FILES = ("/etc/security/limits.conf", "/etc/security/limits.d")
HUGEPAGES = "/sys/kernel/mm/hugepages"


def works(look: Look) -> Verdict:
    """Whether machines run on KVM or are emulated: right either way, but ten times slower."""
    found = look.kvm
    evidence = ("/dev/kvm", found.reason)
    if found.kvm:
        return passed(evidence)
    if "may not be opened" in found.reason or "could not be tested" in found.reason:
        return unknown(AS_ROOT, evidence)
    again = f"After a change remove {kvm.memory(look.host)} to test again."
    return warned(
        f"Switch on VT-x or AMD-V in the firmware (or nesting, in a virtual machine) and load kvm. {again}", evidence
    )


def lock_limit(look: Look) -> Verdict:
    """All memory of a machine with a device is locked; libvirt raises the limit, if it may (dossier 7.5)."""
    session = tuple(_session_limits(look))
    process = _daemon(look)
    limit, may_raise, source = _by_process(look, process) if process is not None else _by_unit(look)
    evidence = (Evidence(source, f"locked memory {limit}, {'may' if may_raise else 'may not'} raise it"), *session)
    if limit in ("unlimited", "infinity") or may_raise:
        return passed(*evidence)
    remedy = "Give libvirt's unit LimitMEMLOCK=infinity (systemctl edit virtqemud or libvirtd), or CAP_SYS_RESOURCE."
    return failed(remedy, *evidence)


def _daemon(look: Look) -> str | None:
    """The folder in /proc of the libvirt daemon that starts QEMU."""
    for process in look.entries("/proc"):
        if process.isdecimal() and (look.host.read_or_none(look.host.path(f"/proc/{process}/comm")) in DAEMONS):
            return f"/proc/{process}"
    return None


def _by_process(look: Look, process: str) -> tuple[str, bool, str]:
    limits = re.search(r"^Max locked memory\s+\S+\s+(\S+)", look.text(f"{process}/limits") or "", re.MULTILINE)
    rights = re.search(r"^CapEff:\s*([0-9a-f]+)$", look.text(f"{process}/status") or "", re.MULTILINE)
    if limits is None or rights is None:
        raise VmctlError(Code.COULD_NOT_TELL, f"{process}/limits and status do not tell.", AS_ROOT)
    return limits[1], bool(int(rights[1], 16) >> RAISES_LIMITS & 1), f"{process}/limits"


def _by_unit(look: Look) -> tuple[str, bool, str]:
    """A daemon that is started when it is called is judged by its unit."""
    for name in DAEMONS:
        found = units.unit(look, f"{name}.service")
        if units.is_there(found):
            rights = found.get("CapabilityBoundingSet", "")
            return found.get("LimitMEMLOCK", "unknown"), "cap_sys_resource" in rights, f"systemctl show {name}"
    raise VmctlError(
        Code.COULD_NOT_TELL, "There is neither a libvirt daemon nor a unit of one.", "Install libvirt on this host."
    )


def _session_limits(look: Look) -> Iterator[Evidence]:
    """What people's own sessions get; it does not hold for system services."""
    single, folder = LIMITS_FILES
    for name in (single, *(f"{folder}/{entry}" for entry in look.entries(folder))):
        text = look.host.read_or_none(look.host.path(name)) or ""
        for line in text.splitlines():
            if "memlock" in line and not line.lstrip().startswith("#"):
                yield Evidence(name, " ".join(line.split()))


def hugepages(look: Look) -> Verdict:
    """Memory set aside as huge pages is none for machines, which take ordinary memory."""
    reserved = {name: _reserved_mib(look, name) for name in look.entries(HUGEPAGES)}
    found = re.search(r"^MemTotal:\s*(\d+) kB", look.text("/proc/meminfo") or "", re.MULTILINE)
    if not reserved:
        return unknown("Look whether /sys is mounted.", (HUGEPAGES, "is not there"))
    if found is None:
        return unknown("Look whether /proc is mounted.", ("/proc/meminfo", "tells no MemTotal"))
    total, taken = int(found[1]) // 1024, sum(reserved.values())
    evidence = [Evidence(f"{HUGEPAGES}/{name}", f"{mib} MiB set aside") for name, mib in reserved.items() if mib]
    evidence.append(Evidence("/proc/meminfo", f"{total} MiB in all"))
    if taken * 2 <= total:
        return passed(*evidence)
    remedy = "Set fewer huge pages aside (vm.nr_hugepages, hugepages= on the command line): machines do not use them."
    return warned(remedy, *evidence)


def _reserved_mib(look: Look, name: str) -> int:
    size = re.fullmatch(r"hugepages-(\d+)kB", name)
    count = (look.text(f"{HUGEPAGES}/{name}/nr_hugepages") or "").strip()
    if size is None or not count.isdecimal():
        what = f"{HUGEPAGES}/{name}/nr_hugepages tells no number."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Look at /proc/meminfo.")
    return int(size[1]) * int(count) // 1024


def disk(look: Look) -> Verdict:
    """Free space where machines' disks lie."""
    folder, free_bytes = look.free_bytes
    free = free_bytes / GIB
    evidence = (folder, f"{free:.1f} GiB free")
    if free >= LOW_GIB:
        return passed(evidence)
    judge = failed if free < TOO_LOW_GIB else warned
    return judge("Delete disks of machines nobody needs, or enlarge the file system.", evidence)


def thin_pools(look: Look) -> Verdict:
    """A thin pool promises more than it has; when it is full, every machine on it gets write errors."""
    try:
        answer = look.said(LVS)
    except VmctlError:
        if look.there("/usr/sbin/lvs") or look.there("/sbin/lvs"):
            raise
        return not_applicable(("lvs", "LVM is not installed"))
    if answer.status:
        said = (answer.errors.strip() or f"status {answer.status}").splitlines()[0]
        return unknown(AS_ROOT, (LVS, said))
    pools = list(_pools(answer.output))
    evidence = [Evidence(f"lvs {name}", f"{used:g} per cent full") for name, used in pools]
    if not pools:
        return not_applicable(("lvs", "no thin pool"))
    worst = max(used for _, used in pools)
    if worst < THIN_FULL:
        return passed(*evidence)
    judge = failed if worst >= THIN_TOO_FULL else warned
    return judge("Enlarge the pool (lvextend, for metadata --poolmetadatasize), or delete volumes.", *evidence)


def _pools(output: str) -> Iterator[tuple[str, float]]:
    """Thin pools (attribute t) and the fuller of their two parts. Raises VmctlError for output that is no such list."""
    try:
        volumes = [volume for report in json.loads(output)["report"] for volume in report["lv"]]
        for volume in volumes:
            if volume["lv_attr"].startswith("t"):
                parts = [float(volume[part] or 0) for part in ("data_percent", "metadata_percent")]
                yield f"{volume['vg_name']}/{volume['lv_name']}", max(parts)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise VmctlError(Code.COULD_NOT_TELL, f"lvs answered something else: {error!r}.", "Look at lvs.") from error


def clock(look: Look) -> Verdict:
    """Ends of bookings are times: a clock that nobody sets drifts. Asked of the kernel, whoever sets it."""
    state = look.host.clock_state()
    if state is None:
        return unknown("Look at timedatectl.", ("adjtimex", "not to be had"))
    if state == TIME_ERROR:
        remedy = f"Set the clock by the network: {distribution.install(look.host, 'chrony')}, and start it."
        return warned(remedy, ("adjtimex", "the clock is not synchronised"))
    return passed(("adjtimex", "the clock is synchronised"))
