"""What keeps things apart or lets people in: confinement of QEMU, sshd's limits, tools that must be there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vmctl.card import Framework
from vmctl.checks import distribution
from vmctl.checks.finding import Evidence, Verdict, failed, not_applicable, passed, unknown, warned
from vmctl.checks.look import AS_ROOT, SMI, SSHD, TOOLS, Look
from vmctl.commands import Missing, TooSlow
from vmctl.errors import Code, VmctlError
from vmctl.gpus.functions import SRIOV_MANAGE

APPARMOR = "/sys/module/apparmor/parameters/enabled"
SELINUX = "/sys/fs/selinux/enforce"
DENIED = re.compile(r"apparmor=\"DENIED\".*(libvirt|qemu)|avc:\s+denied.*(svirt|qemu)", re.IGNORECASE)
FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin")
CLASS = 30
"""A class opens so many consoles at once; the portal carries all of a host's over few connections."""
SSHD_CONFIG = "/etc/ssh/sshd_config"
DEFAULTS = {"maxsessions": "10", "maxstartups": "10:30:100"}


def confinement(look: Look) -> Verdict:
    """Which walls are around QEMU, and whether they refused it something (dossier 7.5)."""
    on = []
    if (look.text(APPARMOR) or "").strip() == "Y":
        on.append(Evidence(APPARMOR, "Y: AppArmor is on"))
    enforce = (look.text(SELINUX) or "").strip()
    if enforce:
        on.append(Evidence(SELINUX, f"{enforce}: SELinux {'enforces' if enforce == '1' else 'only tells'}"))
    if not on:
        return passed((APPARMOR, "not on"), (SELINUX, "not on"))
    log = look.said("dmesg")
    if log.status:
        return unknown(AS_ROOT, *on, ("dmesg", log.errors.strip()[:200] or f"status {log.status}"))
    denied = [line.strip()[:300] for line in log.output.splitlines() if DENIED.search(line)]
    if denied:
        remedy = "Let the refused file be used by libvirt's own means (a hostdev or disk in the domain), or label it."
        return warned(f"{remedy} On SELinux: restorecon -Rv /usr/lib/nvidia /dev/nvidia*.", *on, ("dmesg", denied[-1]))
    return passed(*on, ("dmesg", "no refusal of QEMU or libvirt"))


def sshd(look: Look) -> Verdict:
    """Whether a class can look at its screens over SSH at the same time."""
    if not look.there(SSHD_CONFIG) and not look.there("/usr/sbin/sshd"):
        return not_applicable((SSHD_CONFIG, "no SSH server here"))
    source, found = _sshd_settings(look)
    sessions, startups = found["maxsessions"], found["maxstartups"]
    evidence = [Evidence(source, f"MaxSessions {sessions}"), Evidence(source, f"MaxStartups {startups}")]
    first = startups.split(":")[0]
    if not (sessions.isdecimal() and first.isdecimal()):
        return unknown("Look at: sshd -T", *evidence)
    if int(sessions) >= CLASS and int(first) >= CLASS:
        return passed(*evidence)
    remedy = (
        f"Put `MaxSessions {2 * CLASS}` and `MaxStartups {CLASS}:30:{4 * CLASS}` at the top of {SSHD_CONFIG} "
        "and run: systemctl reload sshd (or ssh)."
    )
    return warned(f"A class of {CLASS} opens its consoles at once. {remedy}", *evidence)


def _sshd_settings(look: Look) -> tuple[str, dict[str, str]]:
    """What holds, by sshd itself; without the right to ask it, by its files, where the first value counts."""
    try:
        answer = look.said(SSHD)
    except VmctlError:
        answer = None
    if answer is not None and answer.status == 0 and "maxsessions" in answer.output.lower():
        return SSHD, _first(answer.output.splitlines())
    text = look.text(SSHD_CONFIG)
    if text is None:
        raise VmctlError(Code.COULD_NOT_TELL, f"Neither {SSHD} nor {SSHD_CONFIG} tells.", AS_ROOT)
    return SSHD_CONFIG, _first(_with_includes(look, text))


def _with_includes(look: Look, text: str) -> Iterable[str]:
    for line in text.splitlines():
        words = line.split()
        if words[:1] and words[0].lower() == "match":
            return  # from here on it holds for some only
        if words[:1] and words[0].lower() == "include" and f"{SSHD_CONFIG}.d/*.conf" in words:
            for name in look.entries(f"{SSHD_CONFIG}.d"):
                yield from (look.text(f"{SSHD_CONFIG}.d/{name}") or "").splitlines()
        else:
            yield line


def _first(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        words = re.split(r"[\s=]+", line.strip().lower())
        if words[0] in DEFAULTS and len(words) > 1:
            found.setdefault(words[0], words[1])
    return DEFAULTS | found


def tools(look: Look) -> Verdict:
    """Every tool that a way of sharing here needs: better known now than by the first user (field log H07)."""
    wanted = dict(TOOLS)
    ways = {gpu.framework for gpu in look.gpus}
    if not ways & {Framework.MDEV_PF, Framework.MDEV_VF}:
        del wanted["mdevctl"]
    if any(gpu.driver == "nvidia" for gpu in look.gpus):
        wanted["nvidia-smi"] = SMI
    found = {tool: _is_there(look, tool, command) for tool, command in wanted.items()}
    if any(gpu.driver == "nvidia" and gpu.vfs is not None for gpu in look.gpus):
        found["sriov-manage"] = (look.there(SRIOV_MANAGE), SRIOV_MANAGE)
    evidence = [Evidence(source, "is there" if there else "is not there") for there, source in found.values()]
    missing = [tool for tool, (there, _) in found.items() if not there]
    if not missing:
        return passed(*evidence)
    own = [tool for tool in missing if tool in TOOLS]
    theirs = [tool for tool in missing if tool not in TOOLS]
    remedies = [f"For {' and '.join(own)} {distribution.install(look.host, *own)}."] if own else []
    remedies += [f"NVIDIA's vGPU host driver brings {' and '.join(theirs)}."] if theirs else []
    # libvirt makes and removes mediated devices through mdevctl; vmctl itself writes them.
    return (warned if missing == ["mdevctl"] else failed)(" ".join(remedies), *evidence)


def _is_there(look: Look, tool: str, command: str) -> tuple[bool, str]:
    """One that answers anything is there; one that is not in this user's path may still lie in its folder."""
    try:
        look.said(command)
    except VmctlError as error:
        folder = next((name for name in FOLDERS if look.there(f"{name}/{tool}")), None)
        if folder is not None:
            return True, f"{folder}/{tool}"
        if isinstance(error, TooSlow):
            return True, command
        if not isinstance(error, Missing):
            raise
        return False, tool
    return True, command
