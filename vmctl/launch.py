"""Starts one machine: address, filter, seed, domain. All of it or, for libvirt, nothing."""

import json
import os
from collections.abc import Iterable
from dataclasses import replace

from vmctl import domain, gpus, network, reconcile, seed, state, storage
from vmctl.card import ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.hypervisor import Domain, Hypervisor
from vmctl.model import Attachment, DesiredMachine, DesiredState, Device
from vmctl.site import Site

ADDRESS_SECONDS = 60.0
"""How long to wait while another host on this libvirt starts a machine: both choose addresses from one network."""


def start(
    site: Site,
    hypervisor: Hypervisor,
    desired: DesiredState,
    wish: DesiredMachine,
    provided: Iterable[ProvidedVGPU],
    domain_type: str,
) -> None:
    """Start a machine with the vGPUs that were made for it. Raises VmctlError; then there is no domain."""
    devices = [gpus.device(vgpu) for vgpu in provided]
    if len(devices) != len(wish.vgpus):
        raise VmctlError(Code.FAILED, f"{wish.name} has not all its vGPUs.", "Wait for the next apply.", retry=True)
    bring_up_filter(site.host, hypervisor)
    make_console_folder(site, hypervisor)
    folder = storage.folder(site.storage, wish.machine)
    with state.locked(site.run_dir / "addresses.lock", ADDRESS_SECONDS):
        neighbours = hypervisor.domains()
        refuse_taken(devices, neighbours)
        wiring = _wire(site, hypervisor, wish, neighbours)
        attachments = tuple(site.host.attachment(device) for device in devices)
        (folder / storage.SERIAL).unlink(missing_ok=True)
        seed.write(site.host, folder / storage.SEED, _told(wish, attachments), wiring)
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
        )
        hypervisor.start(domain.render(blueprint))


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
