"""The GPUs and their drivers, card by card, and the vGPUs that nobody has."""

from __future__ import annotations

from collections.abc import Sequence

from vmctl.card import GPU, ProvidedVGPU
from vmctl.checks.finding import Evidence, Finding, Verdict
from vmctl.host import Host

NO_NOUVEAU = (
    "Put `blacklist nouveau` and `options nouveau modeset=0` into a file below /etc/modprobe.d, rebuild the initial "
    "RAM disk (update-initramfs -u, or dracut -f), reboot, and install NVIDIA's vGPU host driver."
)
SHARING = "Install NVIDIA's vGPU host driver of a release that lists this card, and look at nvidia-vgpud's log."


def drivers(host: Host, gpus: Sequence[GPU]) -> list[Finding]:
    """One finding for each GPU; one in all when there is none."""
    if not gpus:
        nothing = Evidence("/sys/bus/pci/devices", "no NVIDIA, AMD or Intel display function")
        return [Finding("driver", Verdict.WARN, (nothing,), "Put a GPU into this host, or take the host out.")]
    return [_driver(host, gpu) for gpu in gpus]


def _driver(host: Host, gpu: GPU) -> Finding:
    name = f"driver:{gpu.address}"
    link = Evidence(f"/sys/bus/pci/devices/{gpu.address}/driver", gpu.driver or "none")
    version = host.read_or_none(host.path("/sys/module/nvidia/version"))
    release = (Evidence("/sys/module/nvidia/version", version),) if version and gpu.driver == "nvidia" else ()
    gaps = tuple(Evidence(gap.what, gap.reason) for gap in gpu.unknown)
    if gpu.driver == "vfio-pci":
        return Finding(name, Verdict.NOT_APPLICABLE, (link, *gaps))
    if gpu.driver in (None, "nouveau", "nova_core"):
        return Finding(name, Verdict.FAIL, (link, *gaps), NO_NOUVEAU if gpu.driver else SHARING)
    if gpu.regimes and not gaps:
        return Finding(name, Verdict.PASS, (link, *release))
    verdict = Verdict.UNKNOWN if gpu.regimes else Verdict.FAIL
    return Finding(name, verdict, (link, *release, *gaps), SHARING)


def leftovers(shares: Sequence[ProvidedVGPU]) -> Finding:
    """vGPUs that no domain names, running or defined. One may be seen for a moment while a machine starts."""
    alone = [share for share in shares if share.holder is None]
    source = "/sys/bus/mdev/devices"
    if not alone:
        return Finding("leftovers", Verdict.PASS, (Evidence(source, f"{len(shares)} vGPUs, each has its machine"),))
    evidence = tuple(Evidence(f"{source}/{share.uuid}", f"{share.type} on {share.gpu}, no machine") for share in alone)
    commands = "; ".join(f"echo 1 > {source}/{share.uuid}/remove" for share in alone)
    return Finding("leftovers", Verdict.WARN, evidence, f"If they stay, remove them: {commands}")
