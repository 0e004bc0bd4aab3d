"""A private libvirtd with a network of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from scripts import namespace
from scripts.instance import Instance
from scripts.supervisor import Service
from scripts.terminal import Refusal, say
from vmctl import kvm
from vmctl.host import Host

QEMU_USER = "libvirt-qemu"  # Debian's and Ubuntu's
DAEMON_SETTINGS = """\
# Who reaches the socket may command: it lies in a folder of ours, for root only.
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
"""
QEMU_SETTINGS = """\
stdio_handler = "file"  # no virtlogd of our own
security_driver = "none"  # AppArmor's driver would write into the system's /etc/apparmor.d
"""
# A QEMU with devices of its own gets copies of them, which a covered /dev/kvm does not survive.
WITHOUT_KVM = "namespaces = []\n"


def service(instance: Instance) -> Service:
    """Ready to start.  Decides by a real trial whether KVM works, before libvirtd looks."""
    program = shutil.which("libvirtd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None or shutil.which("virsh") is None:
        raise Refusal("libvirt is not installed.", "Run `scripts/setup`, or set LIBVIRT_URI.")
    works = kvm_works()
    let_qemu_make_sockets(instance.run_dir / "console")
    namespace.cover_libvirt(instance)
    if not works:
        namespace.cover_kvm(instance)
    etc = instance.var / "libvirt" / "etc"
    (etc / "libvirtd.conf").write_text(DAEMON_SETTINGS)
    (etc / "qemu.conf").write_text(QEMU_SETTINGS + ("" if works else WITHOUT_KVM))
    return Service(
        name="libvirtd",
        command=[program, "-p", f"{instance.run_dir}/libvirt/libvirtd.pid"],
        ready=lambda: virsh(instance, "uri").returncode == 0,
        ready_seconds=120,
    )


def kvm_works() -> bool:
    """Tried on this machine as it is, once after each boot: the verdict lies where the next boot finds nothing."""
    verdict = kvm.accelerator(Host("here", state_dir=Path("/run/tessera")))
    say(f"machines run with {'KVM' if verdict.kvm else 'emulation'}: {verdict.reason}")
    return verdict.kvm


def let_qemu_make_sockets(folder: Path) -> None:
    """QEMU makes its screen's socket itself, under its own user; nobody but it and root gets in."""
    try:
        shutil.chown(folder, QEMU_USER, "root")
    except LookupError:
        raise Refusal(f"There is no user {QEMU_USER}.", "Install the package libvirt-daemon-system again.") from None
    folder.chmod(0o750)


def virsh(instance: Instance, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["virsh", "-q", "-c", instance.libvirt_uri, *words]
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, process_group=0)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "libvirtd does not answer")


def end_machines(instance: Instance) -> None:
    """Switch off every machine of this libvirtd: nobody will be there to stop it at its end."""
    running = virsh(instance, "list", "--uuid").stdout.split()
    if running:
        say(f"switches off {len(running)} machines (KEEP_VMS=1 would leave them)")
    for machine in running:
        if virsh(instance, "destroy", machine, "--graceful").returncode != 0:
            virsh(instance, "destroy", machine)
