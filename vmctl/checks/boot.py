"""How a word gets onto this host's kernel command line: only ever told, never done.

Judged by what the running machine shows, not by which files lie about: a host with /etc/default/grub may well boot by
systemd-boot, and then a change there does nothing (field log H03).
"""

from __future__ import annotations

from vmctl.host import Host

# What the boot loader told the firmware about itself; UTF-16 after four bytes of attributes.
LOADER_INFO = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-442b29bb8c4f"
AFTERWARDS = "Then reboot and look whether /proc/cmdline has it."


def how_to_add(host: Host, word: str) -> str:
    """The exact change that adds a word and keeps all others."""
    if host.path("/etc/kernel/proxmox-boot-uuids").exists():
        return f"Add {word} to the line in /etc/kernel/cmdline and run: proxmox-boot-tool refresh. {AFTERWARDS}"
    if _booted_by_systemd(host):
        return f"Add {word} to the line in /etc/kernel/cmdline and run: kernel-install add-all. {AFTERWARDS}"
    if host.path("/usr/sbin/grubby").exists():
        return f"Run: grubby --update-kernel=ALL --args={word}. {AFTERWARDS}"
    if host.path("/usr/sbin/update-grub").exists():
        return (
            f"Add {word} to GRUB_CMDLINE_LINUX in /etc/default/grub (look in /etc/default/grub.d too, it overrides) "
            f"and run: update-grub. {AFTERWARDS}"
        )
    if host.path("/etc/default/grub").exists():
        return (
            f"Add {word} to GRUB_CMDLINE_LINUX in /etc/default/grub and run: "
            f"grub2-mkconfig -o /boot/grub2/grub.cfg. {AFTERWARDS}"
        )
    return f"Add {word} to the kernel command line in your boot loader's own way. {AFTERWARDS}"


def how_to_remove(host: Host, word: str) -> str:
    """The exact change that takes a word away."""
    return (
        how_to_add(host, word)
        .replace(f"Add {word} to", f"Take {word} out of")
        .replace("--args=", "--remove-args=")
        .replace("has it.", "is without it.")
    )


def words(host: Host) -> list[str]:
    """The running kernel's command line, word by word (`intel_iommu=on` is not `intel_iommu=on,sm_on`)."""
    return (host.read_or_none(host.path("/proc/cmdline")) or "").split()


def _booted_by_systemd(host: Host) -> bool:
    try:
        told = host.path(LOADER_INFO).read_bytes()[4:].decode("utf-16-le", errors="replace")
    except OSError:
        return False
    return told.startswith("systemd-boot")
