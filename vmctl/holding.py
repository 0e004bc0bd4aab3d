"""Which domain holds which share: by the device that its XML names, whether it runs or is off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vmctl.card import GPU, ProvidedVGPU, Regime
from vmctl.host import Host
from vmctl.observation import Claimant


def held(host: Host, cards: Iterable[GPU], domains: Iterable[Claimant]) -> tuple[GPU, ...]:
    """The GPUs with the holder of each share, and with what domains claim on them that has no share (yet)."""
    claimed = {claim: domain.uuid for domain in domains for claim in domain.claims}
    return tuple(_held(host, card, claimed) for card in cards)


def _held(host: Host, card: GPU, claimed: dict[str, str]) -> GPU:
    shares = tuple(replace(vgpu, holder=_holder(vgpu, claimed)) for vgpu in card.holders)
    known = {name for vgpu in shares for name in _names(vgpu)}
    bare = {address: uuid for address, uuid in claimed.items() if address not in known}
    return replace(card, holders=(*shares, *_claims(host, card, bare)))


def _names(vgpu: ProvidedVGPU) -> list[str]:
    """How an XML may name a share: its device, its uuid, or the virtual function it lies on."""
    names = (vgpu.device, vgpu.uuid, vgpu.parent if vgpu.handle is not None else None)
    return [name for name in names if name is not None]


def _holder(vgpu: ProvidedVGPU, claimed: dict[str, str]) -> str | None:
    return next((claimed[name] for name in _names(vgpu) if name in claimed), None)


def _claims(host: Host, card: GPU, claimed: dict[str, str]) -> Iterator[ProvidedVGPU]:
    """Functions of a card that a domain names and that bear no share: kept for it all the same (dossier 9, 43)."""
    if card.address in claimed:
        whole = replace(_claim(card, card.address, claimed), type=card.model, regime=Regime.WHOLE)
        yield whole
    for name in host.names(host.pci(card.address)):
        address = host.link(host.pci(card.address) / name) if name.startswith("virtfn") else None
        if address in claimed and address is not None:
            yield replace(_claim(card, address, claimed), handle=int(name.removeprefix("virtfn")))


def _claim(card: GPU, address: str, claimed: dict[str, str]) -> ProvidedVGPU:
    regime = card.regime or Regime.EQUAL
    return ProvidedVGPU(None, card.address, "", card.framework, address, "", holder=claimed[address], regime=regime)
