"""nvidia-smi mig: profiles, placements and instances (dossier 3.3), in the format of the captured tables."""

from __future__ import annotations

from vmctl.host import Answer
from vmctl.simulate import rules
from vmctl.simulate.kernel import Kernel
from vmctl.simulate.kinds import Profile
from vmctl.simulate.smi_text import Visible, Words, text
from vmctl.simulate.state import Instance

NOT_FOUND = 6
SHORT = "Insufficient Resources"
BUSY = "In use by another client"
COMPUTE_IDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}  # of the compute profile that fills a GPU instance

PROFILES = (
    "GPU instance profiles:",
    "GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  ",
    "                             Free/Total   GiB              CE    JPEG  OFA  ",
)
INSTANCES = (
    "GPU instances:",
    "GPU   Name             Profile  Instance   Placement  ",
    "                         ID       ID       Start:Size ",
)
COMPUTES = (
    "Compute instances:",
    "GPU     GPU       Name             Profile   Instance   Placement  ",
    "      Instance                       ID        ID       Start:Size ",
    "        ID                                                         ",
)


def answer(kernel: Kernel, words: Words, cards: list[Visible]) -> Answer:
    capable = [card for card in cards if card.card.board.mig]
    if not capable:
        return Answer(NOT_FOUND, "No MIG-supported devices found.\n", "")
    live = [card for card in capable if card.own.mig]
    if not live:
        return Answer(NOT_FOUND, "No MIG-enabled devices found.\n", "")
    if "-lgipp" in words:
        return Answer(0, text(line for card in live for line in _placements(card)), "")
    if "-lgip" in words:
        return Answer(0, _table(77, PROFILES, [row for card in live for row in _profiles(card)]), "")
    if "-lgi" in words:
        rows = [[_instance(card, *each)] for card in live for each in _sorted(card)]
        said = _table(55, INSTANCES, rows)
        return Answer(0, said, "") if rows else Answer(NOT_FOUND, "No GPU instances found: Not Found\n", "")
    if "-lci" in words:
        rows = [[row] for card in live for row in _computes(card)]
        said = _table(68, COMPUTES, rows)
        return Answer(0, said, "") if rows else Answer(NOT_FOUND, "No compute instances found: Not Found\n", "")
    return _change(kernel, words, live)


# -- what there is


def _table(width: int, head: tuple[str, ...], rows: list[list[str]]) -> str:
    rule, lines = f"+{'-' * width}+", []
    lines.append(rule)
    lines += [f"| {line:<{width - 1}}|" for line in head]
    lines.append(f"|{'=' * width}|")
    for row in rows:
        lines += [f"|{line:<{width}}|" for line in row]
        lines.append(rule)
    return text(lines)


def _profiles(card: Visible) -> list[list[str]]:
    rows = []
    for profile in card.card.board.profiles:
        free = rules.remaining(card.card.board, card.own, profile)
        count = f"{free}/{rules.total(card.card.board, profile)}"
        sm, dec, enc, ce, jpeg, ofa = profile.numbers
        left = f"{card.index:>4}  {'MIG ' + profile.name:<17}{profile.id:>3}     {count:<11}{profile.memory:<11}No"
        rows.append([f"{left}     {sm:<7}{dec:<6}{enc:<4}", f"{'':61}{ce:<6}{jpeg:<6}{ofa:<4}"])
    return rows


def _placements(card: Visible) -> list[str]:
    lines = []
    for profile in card.card.board.profiles:
        word = "Placements" if len(profile.starts) > 1 else "Placement "
        starts = ",".join(map(str, profile.starts))
        lines.append(f"GPU {card.index:>2} Profile ID {profile.id:>2} {word}: {{{starts}}}:{profile.size}")
    return lines


def _sorted(card: Visible) -> list[tuple[int, Instance]]:
    return sorted((int(number), instance) for number, instance in card.own.instances.items())


def _instance(card: Visible, number: int, instance: Instance) -> str:
    profile = card.card.board.profile(instance.profile)
    name = f"MIG {profile.name}"
    return f"{card.index:>4}  {name:<17}{profile.id:>5}{number:>9}          {instance.start}:{profile.size}     "


def _computes(card: Visible) -> list[str]:
    rows = []
    for number, instance in _sorted(card):
        profile = card.card.board.profile(instance.profile)
        for compute, (start, size) in instance.compute.items():
            name = f"MIG {profile.name}"
            left = f"{card.index:>4}{number:>7}       {name:<17}{COMPUTE_IDS[size]:>5}"
            rows.append(f"{left}{compute:>10}          {start}:{size}     ")
    return rows


# -- changes


def _change(kernel: Kernel, words: Words, cards: list[Visible]) -> Answer:
    lines: list[str] = []
    status = 0
    for card in cards:
        if "-cgi" in words:
            status = status or _create(card, words, lines)
        elif "-dgi" in words:
            status = status or _destroy(card, words, lines)
        elif "-dci" in words:
            status = status or _destroy_compute(card, words, lines)
        else:
            return Answer(2, "Invalid combination of input arguments. Please run 'nvidia-smi mig -h' for help.\n", "")
        kernel.settle(card.state, card.card)
    return Answer(status, text(lines), "")


def _wanted(card: Visible, word: str) -> tuple[Profile | None, int | None]:
    """A profile by number or name, and the start that is asked for."""
    name, _, start = word.partition(":")
    found = (each for each in card.card.board.profiles if name in (str(each.id), each.name, f"MIG {each.name}"))
    return next(found, None), int(start) if start else None


def _create(card: Visible, words: Words, lines: list[str]) -> int:
    """Make GPU instances one after the other; the first that does not fit ends it, what was made stays."""
    board, own = card.card.board, card.own
    for word in (words.value("-cgi") or "").split(","):
        profile, start = _wanted(card, word)
        if profile is None:
            lines.append(f"Unable to find GPU instance profile {word}: Not Found")
            return NOT_FOUND
        free = rules.starts(board, own, profile)
        start = rules.choose(board, own, profile) if start is None else start
        if start is None or start not in free:
            lines.append(f"Unable to create a GPU instance on GPU {card.index:>2} using profile {profile.id}: {SHORT}")
            lines.append(f"Failed to create GPU instances: {SHORT}")
            return 19
        number = rules.instance_id(board, profile, start)
        made = Instance(profile.name, start)
        own.instances[str(number)] = made
        where = f"on GPU {card.index:>2}"
        what = f"MIG {profile.name}"
        lines.append(
            f"Successfully created GPU instance ID {number:>2} {where} using profile {what} (ID {profile.id:>2})"
        )
        if "-C" in words:
            made.compute["0"] = [0, profile.compute]
            lines.append(
                f"Successfully created compute instance ID  0 {where} GPU instance ID {number:>2} "
                f"using profile {what} (ID {COMPUTE_IDS[profile.compute]:>2})"
            )
    return 0


def _numbers(card: Visible, words: Words, flag: str) -> list[str]:
    given = words.value(flag)
    return given.split(",") if given else [str(number) for number, _ in _sorted(card)]


def _destroy(card: Visible, words: Words, lines: list[str]) -> int:
    """Destroy GPU instances: not one with a compute instance or a vGPU in it."""
    own, where = card.own, f"from GPU {card.index:>2}"
    for number in _numbers(card, words, "-gi"):
        instance = own.instances.get(number)
        if instance is None:
            lines.append(f"Unable to find GPU instance ID {number:>2} {where}: Not Found")
            return NOT_FOUND
        if instance.compute or any(vgpu.instance == int(number) for vgpu in own.vgpus.values()):
            lines.append(f"Unable to destroy GPU instance ID {number:>2} {where}: {BUSY}")
            lines.append(f"Failed to destroy GPU instances: {BUSY}")
            return 19
        del own.instances[number]
        lines.append(f"Successfully destroyed GPU instance ID {number:>2} {where}")
    if not lines:
        lines.append("No GPU instances found: Not Found")
        return NOT_FOUND
    return 0


def _destroy_compute(card: Visible, words: Words, lines: list[str]) -> int:
    """Destroy the compute instances of GPU instances: not while a vGPU works in them."""
    own = card.own
    for number in _numbers(card, words, "-gi"):
        instance = own.instances.get(number)
        where = f"from GPU {card.index:>2} GPU instance ID {number:>2}"
        if instance is None or not instance.compute:
            lines.append(f"Unable to find compute instances {where}: Not Found")
            return NOT_FOUND
        if any(vgpu.instance == int(number) for vgpu in own.vgpus.values()):
            lines.append(f"Unable to destroy compute instance ID  0 {where}: {BUSY}")
            return 19
        for compute in list(instance.compute):
            del instance.compute[compute]
            lines.append(f"Successfully destroyed compute instance ID {compute:>2} {where}")
    return 0
