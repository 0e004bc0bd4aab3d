"""Starts one machine: address, filter, seed, domain. All of it or, for libvirt, nothing."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from vmctl import diagnosis, gpus, state
from vmctl.card import GPU, Framework, ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.hypervisor import Domain, Hypervisor
from vmctl.machine import board, domain, licence, network, picture, seed, storage
from vmctl.machine.board import Pinning
from vmctl.model import Attachment, DesiredMachine, DesiredState, Device, PCIFunction
from vmctl.observation import MachineState
from vmctl.plan import reconcile
from vmctl.site import Site

ADDRESS_SECONDS = 60.0
"""How long to wait while another host on this libvirt starts a machine: both choose addresses from one network."""

GUESTS_PART = 0.9
"""So much of a node's memory may go to machines that are kept on it; the host and QEMU itself need some, too."""

VENDOR_VFIO_SINCE = (9, 7, 0)
"""The first libvirt that takes a function which its vendor's driver, not vfio-pci, serves to VFIO (dossier 6.1)."""


def refuse_unfit(site: Site, hypervisor: Hypervisor, wish: DesiredMachine, cards: Iterable[GPU]) -> None:
    """Raise where a machine could not start on this host whatever is made for it: asked before anything is."""
    if wish.seed.licence is not None:
        licence.token(site.licence_token)
    wanted = {place.gpu for vgpu in wish.vgpus for place in vgpu.places}
    if any(gpu.address in wanted and gpu.framework is Framework.VENDOR_VFIO for gpu in cards):
        refuse_old_libvirt(site.host, hypervisor)


def refuse_old_libvirt(host: Host, hypervisor: Hypervisor) -> None:
    """Raise where libvirt would not take a function that its vendor's own driver serves to VFIO."""
    taken = isinstance(host.attachment(PCIFunction("", "")), PCIFunction)
    version = hypervisor.version() if taken else VENDOR_VFIO_SINCE
    if version < VENDOR_VFIO_SINCE:
        raise VmctlError(
            Code.FAILED,
            f"This vGPU lies on a virtual function of NVIDIA's own driver: libvirt {_said(VENDOR_VFIO_SINCE)} takes "
            f"it, {_said(version)} of this host does not.",
            "Update libvirt on the host, or book another GPU.",
        )


def _said(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def start(
    site: Site,
    hypervisor: Hypervisor,
    desired: DesiredState,
    wish: DesiredMachine,
    provided: Sequence[ProvidedVGPU],
    domain_type: str,
) -> None:
    """Start a machine with the vGPUs that were made for it. Raises VmctlError; then there is no domain."""
    if len(provided) != len(wish.vgpus):
        raise VmctlError(Code.FAILED, f"{wish.name} has not all its vGPUs.", "Wait for the next apply.", retry=True)
    token = None if wish.seed.licence is None else licence.token(site.licence_token)
    devices = [device for vgpu in provided for device in gpus.devices(site.host, vgpu)]
    bring_up_filter(site.host, hypervisor)
    make_console_folder(site, hypervisor)
    folder = storage.folder(site.storage, wish.machine)
    with state.locked(site.run_dir / "addresses.lock", site.host.left(ADDRESS_SECONDS)):
        neighbours = hypervisor.domains()
        refuse_taken(devices, neighbours)
        wiring = _wire(site, hypervisor, wish, neighbours)
        attachments = tuple(site.host.attachment(device) for device in devices)
        (folder / storage.SERIAL).unlink(missing_ok=True)
        seed.write(site.host, folder / storage.SEED, _told(wish, attachments), wiring, token)
        blueprint = domain.Blueprint(
            machine=wish,
            mark=reconcile.mark(desired, wish),
            domain_type=domain_type,
            disk=folder / storage.DISK,
            image=storage.image(site.images, wish),
            seed=folder / storage.SEED,
            serial=folder / storage.SERIAL,
            console=site.console(wish.machine),
            wiring=wiring,
            attachments=attachments,
            nvram=folder / storage.nvram(wish.firmware),
            shows=picture.shown(provided, attachments, hypervisor.version()),
            pinning=pinning(site.host, wish, provided, neighbours),
        )
        boot(site.host, hypervisor, blueprint)


def boot(host: Host, hypervisor: Hypervisor, plan: domain.Blueprint) -> None:
    """Start it, with the boot console where its vGPU turns out to have no picture; told why where it fails."""
    began = host.now()
    try:
        hypervisor.start(domain.render(plan))
    except VmctlError as error:
        if plan.shows is None or not picture.is_refused(error):
            raise diagnosis.explained(host, error, began, plan.machine.name) from error
        boot(host, hypervisor, replace(plan, shows=None))


def pinning(
    host: Host, wish: DesiredMachine, provided: Iterable[ProvidedVGPU], neighbours: Iterable[Domain] = ()
) -> Pinning | None:
    """The NUMA node of the machine's GPUs; None where they are on several, the host has none, or it has no room.

    Room is what the running domains that are kept on it leave: memory that is taken strictly from a full node fails
    the start, or ends some machine there later.
    """
    nodes = {host.read_or_none(host.pci(vgpu.gpu) / "numa_node") for vgpu in provided}
    number = nodes.pop() if len(nodes) == 1 else None
    node = host.numa(int(number)) if number is not None and number.isdigit() else None  # -1: the firmware does not tell
    if node is None or node.vcpus < wish.vcpus:
        return None
    kept = board.kept_on_nodes(each.xml for each in neighbours if each.state is not MachineState.OFF)
    if wish.memory_mib > node.memory_mib * GUESTS_PART - kept.get(node.node, 0):
        return None
    return Pinning(node.node, node.cpus)


def _told(wish: DesiredMachine, attachments: Iterable[Attachment]) -> DesiredMachine:
    """The machine as its guest is told of it: what stands in for a vGPU is called so on its screen."""
    labels = sorted({attachment.label for attachment in attachments if attachment.label})
    shown = f"{wish.seed.vgpu} ({', '.join(labels)})" if labels else wish.seed.vgpu
    return replace(wish, seed=replace(wish.seed, vgpu=shown))


def refuse_taken(devices: Iterable[Device], neighbours: Iterable[Domain]) -> None:
    """Raise when another domain, even one that is off, already names one of these devices."""
    claims = {claim for device in devices for claim in device.claims}
    for neighbour in neighbours:
        taken = claims & domain.read_claims(neighbour.xml) if neighbour.xml else ()
        if taken:
            raise VmctlError(
                Code.NO_CAPACITY,
                f"The vGPU {', '.join(sorted(taken))} is named by the domain {neighbour.name}.",
                "Wait until that domain is off and forgotten, or take the device out of it.",
                retry=True,
            )


def _wire(site: Site, hypervisor: Hypervisor, wish: DesiredMachine, neighbours: Iterable[Domain]) -> domain.Wiring:
    """The machine's place on the network, beside everybody who has one."""
    guests = network.read_network(hypervisor.network(site.network))
    named = (domain.read_address(neighbour.xml) for neighbour in neighbours if neighbour.xml)
    taken = {address for address in named if address} | hypervisor.leases(site.network)
    return network.wiring(wish.machine, guests, taken)


def bring_up_filter(host: Host, hypervisor: Hypervisor) -> None:
    """Have the guests' filter defined with the host's addresses of now; running machines follow."""
    found = hypervisor.filter(domain.FILTER)
    wanted = network.render_filter(host_addresses(host), network.UUID if found is None else network.filter_uuid(found))
    if found is None or not network.same_filter(wanted, found):
        hypervisor.define_filter(wanted)


def host_addresses(host: Host) -> frozenset[str]:
    """The host's own IPv4 addresses, on every interface."""
    answer = host.run(["ip", "-json", "-4", "address", "show"])
    if answer.status:
        raise VmctlError(
            Code.COULD_NOT_TELL,
            f"The host's addresses cannot be listed: {answer.errors.strip()}.",
            "Install iproute2; without it a machine cannot be kept away from the host's services.",
        )
    cards = json.loads(answer.output)
    return frozenset(str(item["local"]) for card in cards for item in card.get("addr_info", ()) if "local" in item)


def make_console_folder(site: Site, hypervisor: Hypervisor) -> None:
    """The folder of the screens' sockets, made once: QEMU's user owns it, our group reaches what is made in it.

    A folder that is there belongs to whoever set the host up and stays as it is.
    """
    if site.consoles.is_dir():
        return
    site.consoles.mkdir(parents=True, exist_ok=True)
    user = hypervisor.node().qemu_user
    if os.geteuid() == 0 and user is not None:
        os.chown(site.consoles, user[0], os.getegid())
    site.consoles.chmod(0o2770)
