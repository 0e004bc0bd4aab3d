"""Texts in which hosts with GPUs fail, what stands behind each, and what to do: data (dossier 8 and 9). Pure.

`{name}` in a sentence is a group of its pattern. Rows without a text of their own (16, 31, 45, 46) are states, which
the doctor finds.
"""

from __future__ import annotations

from dataclasses import dataclass

IOMMU_STEP = "Run vmctl check: it names the switch in the firmware and the kernel parameter for this machine."
MANAGER_LOG = "Read journalctl -u nvidia-vgpu-mgr -u nvidia-vgpud of that moment"


@dataclass(frozen=True)
class Failure:
    """One text. `row`: of the dossier's table; None: from elsewhere in it."""

    row: int | None
    pattern: str
    cause: str
    advice: str
    misleading: bool = False  # the reason stands in another log; where that is at hand, this one is left out


FAILURES = (
    # -- IOMMU and VFIO
    Failure(
        1,
        r"group (?P<group>\d+) is not viable|ensure all devices within the iommu_group are bound to their vfio bus",
        "Another function in the card's IOMMU group (its audio or USB part) still has a driver of the host.",
        "See in vmctl gpus which functions the group has; give away all of them or none.",
    ),
    Failure(
        2,
        r"error getting device from group \d+: Input/output error|Verify all devices in group \d+ are bound|"
        r"\[nvidia-vgpu-vfio\] \S+: start failed\. status: 0x1\b",
        "NVIDIA's vGPU manager refused to start the vGPU; what QEMU says of the group is not the reason.",
        f"{MANAGER_LOG}; the reason stands there.",
        misleading=True,
    ),
    Failure(
        3,
        r"error getting device from group \d+: Input/output error",
        "Or two machines run with one UUID, or name one mediated device.",
        "Look for a second domain with the same UUID or device: virsh list --all, vmctl gpus.",
        misleading=True,
    ),
    Failure(
        4,
        r"failed to read device config space: Bad address",
        "The vGPU is half made, or its profile is damaged.",
        "Let it be removed and made anew: the next apply does that once the machine is off.",
    ),
    Failure(
        5,
        r"no iommu_group found|No ACPI DMAR table found|IOMMU either disabled in BIOS",
        "The IOMMU is off: no device can be given to a machine.",
        IOMMU_STEP,
    ),
    Failure(
        6,
        r"host doesn't support passthrough of host PCI devices",
        "The IOMMU is off, or the module vfio-pci is not loaded.",
        f"{IOMMU_STEP} If the IOMMU is on: modprobe vfio-pci.",
    ),
    Failure(
        7,
        r"VFIO_MAP_DMA failed: Cannot allocate memory|vfio_dma_map\(.*\) = -12|RLIMIT_MEMLOCK \(\d+\) exceeded",
        "The machine's memory could not be locked for the device: the limit is too small, or the host is short of it.",
        "A machine with a device needs its memory and 1 GiB more as lock limit, and as much free memory.",
    ),
    Failure(
        8,
        r"cannot limit locked memory of process",
        "libvirt runs confined and may not raise the lock limit of QEMU.",
        "Set LimitMEMLOCK=infinity for libvirt's daemon, or give it CAP_SYS_RESOURCE.",
    ),
    Failure(
        9,
        r"ineligible for IOMMU domain attach due to platform RMRR|assuming all RMRRs are relaxable",
        "The firmware keeps memory for itself behind that slot (RMRR), so the card cannot be given away safely.",
        "Turn the feature off in the firmware, or use another slot; a kernel that ignores it may damage data.",
    ),
    Failure(
        40,
        r"failed to open /dev/vfio/\S+: (Operation not permitted|No such file or directory)",
        "QEMU may not open the device's VFIO file, or there is none.",
        "Look whether the file is there and whether libvirt's cgroup or confinement keeps QEMU from it.",
    ),
    # -- virtual functions and mediated devices
    Failure(
        10,
        r"not enough MMIO resources for SR-IOV|Failed to enable \d+ VFs \(-ENOMEM\)|"
        r"write error: Cannot allocate memory",
        "The firmware gave the card too small a window of addresses for its virtual functions.",
        "Turn on Above 4G Decoding and SR-IOV in the firmware, with a larger MMIO size.",
    ),
    Failure(
        11,
        r"write error: No space left on device",
        "The GPU has no room for this type any more, whatever its counter says.",
        "Book a smaller type or another GPU; vmctl gpus tells what is free now.",
    ),
    Failure(
        12,
        r"mediated device '[^']+' not found",
        "The mediated device is gone, as after a reboot of the host.",
        "The next apply makes it again with the same UUID and starts the machine.",
    ),
    Failure(
        13,
        r"Cannot find 'mdevctl' in path",
        "The package mdevctl is not installed where libvirt's daemon for devices runs.",
        "Install mdevctl there.",
    ),
    Failure(
        14,
        r"no parent devices found|/sys/class/mdev_bus\S*: No such file or directory",
        "This kernel and driver make no mediated devices.",
        "That is no fault where the card offers vGPUs through the vendor's VFIO interface: see vmctl gpus.",
        misleading=True,
    ),
    Failure(
        15,
        r"Cannot obtain unbindLock",
        "A process holds the card, often only for a moment: nvidia-smi, DCGM, an exporter.",
        "Try again; if it stays, end what holds /dev/nvidia* (fuser -v /dev/nvidia*).",
    ),
    Failure(
        17,
        r"Failed to add vgpu create request|write error: Input/output error|Invalid argument \(os error 22\)",
        "The GPU does not take this type now: it is full, or holds another size.",
        "See in vmctl gpus what is on the GPU and what it still takes.",
    ),
    Failure(
        18,
        r"\AID\s+: vGPU Name\s*\Z",
        "The list of types has only its head: nothing can be made on this virtual function now.",
        "That is no fault: the GPU is full, holds another size, or the function has its vGPU already.",
        misleading=True,
    ),
    # -- the vGPU manager
    Failure(
        19,
        r"Failed to get VM UUID from QEMU command-line|kvm_plugin_global_init failed",
        "The machine was started without -uuid, which the vGPU manager needs.",
        "Start it through libvirt; other machine monitors are not supported.",
    ),
    Failure(
        20,
        r"supported only on VGX capable boards|vGPU validation of the GPU failed|init_device_instance failed error",
        "The card cannot be cut into vGPUs, or its driver is not the vGPU host driver.",
        "Compare card and driver package with NVIDIA's list of supported boards.",
    ),
    Failure(
        21,
        r"start failed\. status: 0x0 Timeout Occured",
        "The vGPU manager did not answer: nvidia-vgpu-mgr does not run.",
        "Start it: systemctl start nvidia-vgpu-mgr.",
    ),
    Failure(
        22,
        r"Incompatible Guest/Host drivers",
        "The guest's driver is too old for the host's.",
        "Update the driver in the image; the host branch's release notes name the pairs that work.",
    ),
    Failure(
        26,
        r"No supported devices in vGPU mode",
        "The driver sees no card that it would cut: a plain driver package, a display mode, or MIG-only boards.",
        "Check that the vGPU host driver is installed, and the card's display mode (displaymodeselector).",
        misleading=True,
    ),
    # -- the driver
    Failure(
        23,
        r"Driver/library version mismatch|API mismatch: the client has the version",
        "The driver's package was updated, and its old module is still loaded.",
        "Drain the host and reboot it; hold the package against unattended upgrades.",
    ),
    Failure(
        24,
        r"couldn't communicate with the NVIDIA driver|^No devices were found",
        "The driver's module is not loaded, or no card is bound to it: nouveau, a signature, DKMS, or vfio-pci.",
        "Run vmctl check: it tells which, by the driver of each card, mokutil and modinfo.",
    ),
    Failure(
        25,
        r"Key was rejected by service|Required key not available",
        "Secure Boot refuses the module, because nobody signed it with a key that this machine knows.",
        "Sign it and enrol the key (mokutil --import), or let DKMS do so.",
    ),
    Failure(
        37,
        r"not ready \d+ms after \w+; giving up|Unable to change power state from D3cold to D0",
        "The card does not come back from its reset.",
        "Take it out of service and power the host off and on; a reboot may not be enough.",
    ),
    Failure(
        37,
        r"not ready \d+ms after \w+; waiting",
        "The card is slow to come back from its reset.",
        "Wait a minute and look again.",
        misleading=True,
    ),
    Failure(
        38,
        r"This PCI I/O region assigned to your NVIDIA device is invalid|BAR\d is 0M @ 0x0|BIOS may have misconfigured",
        "The firmware, of the guest where it is said there, found no addresses for the card's memory.",
        "Start the guest with UEFI (OVMF) and a larger 64-bit window; on a host: Above 4G Decoding.",
    ),
    Failure(
        39,
        r"cannot find enough free resources that it can use|\(Code 12\)",
        "Windows in the guest found no addresses for the card's memory.",
        "Start the guest with the machine type q35, UEFI (OVMF) and a larger 64-bit window.",
    ),
    Failure(
        41,
        r"RmInitAdapter failed!|rm_init_adapter failed",
        "The driver could not start the card: firmware, a failed reset, or it fell off the bus.",
        "Read dmesg around it; drain the host and reboot it, and take the card out of service if it comes again.",
    ),
    Failure(
        42,
        r"Xid.*: 119\b|Timeout.* waiting for RPC from GSP",
        "The card's own firmware (GSP) hangs.",
        "Drain the card and reboot the host; update the driver if it comes again.",
    ),
    # -- modes
    Failure(
        27,
        r"In use by another client",
        "A process holds the card: an exporter, DCGM, the persistence daemon.",
        "End what holds /dev/nvidia* (fuser -v /dev/nvidia*), then try again.",
    ),
    Failure(
        28,
        r"MIG mode is in pending enable state",
        "MIG mode holds only after a reset of the card; inside a machine it cannot be had.",
        "Drain the host and reboot it.",
    ),
    Failure(
        29,
        r"Insufficient Resources",
        "The GPU instances that are there leave no room for this one where it must begin.",
        "See nvidia-smi mig -lgi for what is used; make large instances first.",
    ),
    Failure(30, r"Insufficient Permissions", "The user may not ask that.", "Run vmctl as root, or by its sudo rule."),
    Failure(
        32,
        r"scheduler state cannot be configured, if vGPU instance is currently active",
        "The scheduler can be set only while no vGPU is on the card.",
        "The change waits until the card is drained.",
    ),
    # -- libvirt
    Failure(
        43,
        r"device (?P<device>\S+) is in use by driver \w+, domain (?P<domain>\S+)",
        "The device {device} belongs to the domain {domain}, which was not booked here.",
        "Stop that domain, or take the device out of it; vmctl does not touch it.",
    ),
    Failure(
        44,
        r"Unmanaged PCI device (?P<device>\S+) must be manually detached",
        "The virtual function {device} has no vGPU type, the wrong driver, or a kernel without vfio-dev.",
        "See in vmctl gpus which driver it has; it must be on nvidia with its type written.",
    ),
    Failure(
        None,
        r"QEMU unexpectedly closed the monitor",
        "QEMU ended while it started.",
        "Read the last lines of /var/log/libvirt/qemu/ for this machine.",
        misleading=True,
    ),
)
