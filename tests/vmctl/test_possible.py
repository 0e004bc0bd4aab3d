"""What cannot be is refused in the plan, with the reason; what is only not known or not ready is not."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.vmctl.build import (
    GPU_ADDRESS,
    NOW,
    Json,
    a40,
    card,
    document,
    machine,
    name_uuid,
    observed,
    running,
    settings,
    share,
    state,
    vgpu,
)
from vmctl import cli
from vmctl.answers.report import Outcome, planned
from vmctl.card import GPU, Framework, Mode, Regime, Unknown, VFs, VGPUType
from vmctl.commands import changing, run_command
from vmctl.host import Host
from vmctl.observation import ACCEPTANCE, Disk, Observation, acceptance_machine
from vmctl.plan.card_steps import ChangeCard, RefuseCard, WaitForBoot
from vmctl.plan.reconcile import CUT_OFF, plan
from vmctl.plan.steps import ForceStop, Provide, Purge, Refuse, Start
from vmctl.site import Site

if TYPE_CHECKING:
    import typer

SECOND = "0000:af:00.0"
CELLS = ((0, 1), (1, 2), (2, 3), (3, 4))
T4_4Q = VGPUType("T4-4Q", "232", "Q", 4096, "4G", Regime.EQUAL, 4, CELLS, CELLS)


def t4(**other: Any) -> GPU:
    usual: Json = {"driver": "nvidia", "handles": 16, "types": (T4_4Q,)}
    return replace(card(), **usual | other)


def card_refusals(wanted: Json, *gpus: GPU, **other: Any) -> list[str]:
    found = plan(state(cards=[wanted]), observed(gpus=gpus, **other), NOW).steps
    assert not [step for step in found if isinstance(step, ChangeCard)]
    return [step.error.what for step in found if isinstance(step, RefuseCard)]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"gpu": "0000:99:00.0", "regime": "equal"}, "There is no GPU 0000:99:00.0 on this host."),
        ({"regime": "mig"}, "has no MIG"),
        ({"regime": "mixed"}, "takes vGPUs of one size only"),
        ({"regime": "whole"}, "it has no IOMMU group"),
        ({"regime": "vf"}, "has no virtual functions that machines get"),
        ({"vfs": 4}, "has no virtual functions"),
        ({"types": ["T4-9Q", "nope"]}, "The driver offers none of T4-9Q, nope on GPU 0000:3b:00.0; it offers T4-4Q."),
    ],
)
def test_a_setting_that_cannot_be_is_said(wanted: Json, said: str) -> None:
    (what,) = card_refusals(settings() | wanted, t4())
    assert said in what


def test_more_functions_than_a_card_has_are_refused_before_any_is_turned_off() -> None:
    flex = a40(framework=Framework.SRIOV, vendor="Intel", driver="i915", vfs=VFs(31, 4, 4), mig=None)
    assert card_refusals(settings(vfs=99), flex) == [
        f"GPU {GPU_ADDRESS} (NVIDIA A40) has 31 virtual functions at most, not 99."
    ]
    assert "no number can be set" in card_refusals(settings(vfs=4), a40(vendor="NVIDIA"))[0]


@pytest.mark.parametrize(
    "gpu",
    [
        t4(driver=None, framework=Framework.NONE, types=()),
        t4(unknown=(Unknown("mig", "No nvidia-smi."), Unknown("types", "No nvidia-smi."))),
    ],
)
def test_what_is_not_known_or_not_ready_refuses_nothing(gpu: GPU) -> None:
    assert card_refusals(settings(regime="mig", types=["nope"]), gpu) == []


def test_other_cards_go_on_and_a_wishless_card_may_be_gone() -> None:
    other = replace(a40(), address=SECOND)
    wanted = state(cards=[settings(vfs=4), settings(SECOND, regime="mixed"), settings("0000:99:00.0")])
    steps = plan(wanted, observed(gpus=(t4(), other)), NOW).steps
    assert [type(step) for step in steps] == [RefuseCard, ChangeCard]
    assert [outcome.error is not None for outcome in planned(steps)] == [True, False]


@pytest.mark.parametrize(
    ("share_wanted", "said"),
    [
        ({"gpu": "0000:99:00.0"}, "There is no GPU 0000:99:00.0"),
        ({"type": "T4-5Q"}, "does not offer T4-5Q"),
        ({"handle": 999}, "has the handles 0 to 15, not 999"),
        ({"slot": [3, 4]}, "has no slot [3, 4); legal are [0, 1)"),
        ({"cell": [7, 8]}, "has no place [7, 8); legal are [0, 1), [1, 2), [2, 3), [3, 4)"),
    ],
)
def test_a_share_that_cannot_be_is_refused(share_wanted: Json, said: str) -> None:
    wanted = state(machine("a", vgpus=[vgpu("a", **share_wanted)]))
    (refusal,) = plan(wanted, observed(gpus=(t4(),)), NOW).steps
    assert isinstance(refusal, Refuse)
    assert said in refusal.error.what
    unknown = (Unknown("types", "The list cannot be read."),)
    blind = observed(gpus=(t4(handles=None, unknown=unknown),), unknown=(Unknown("gpus", "0000:99:00.0 may be one."),))
    first = plan(wanted, blind, NOW).steps[0]
    assert isinstance(first, Provide) or (isinstance(first, Refuse) and "cannot be seen" in first.error.what)


def test_the_second_of_two_shares_in_one_place_is_refused_and_never_the_one_that_runs() -> None:
    here: Json = {"cell": [0, 1]}
    wanted = state(machine("b", vgpus=[vgpu("b", **here)]), machine("a", vgpus=[vgpu("a", **here)]))
    steps = plan(wanted, observed(gpus=(t4(),)), NOW).steps
    (refusal,) = [step for step in steps if isinstance(step, Refuse)]
    assert "ada-b-" in refusal.error.what
    assert refusal.wish.hostname == "ada-a"
    (later,) = plan(wanted, observed(running("a"), gpus=(t4(),)), NOW).steps
    assert isinstance(later, Refuse)
    assert later.wish.hostname == "ada-b"
    over = machine("b", vgpus=[vgpu("b", **here)], order="stop")
    steps = plan(state(over, machine("a", vgpus=[vgpu("a", **here)])), observed(gpus=(t4(),)), NOW).steps
    assert isinstance(steps[-1], Start)


def test_a_whole_card_is_asked_for_by_its_model() -> None:
    whole: Json = {"regime": "whole", "cell": None, "handle": None}

    def first(kind: str) -> object:
        wanted = state(machine("a", vgpus=[vgpu("a", type=kind, **whole)]))
        return plan(wanted, observed(gpus=(a40(),)), NOW).steps[0]

    refusal = first("A40-8Q")
    assert isinstance(refusal, Refuse)
    assert "is a NVIDIA A40, not a A40-8Q" in refusal.error.what
    assert all(isinstance(first(kind), Provide) for kind in ("whole", "A40", "NVIDIA A40"))


def test_more_processors_than_a_machine_can_have_are_refused() -> None:
    (refusal,) = plan(state(machine("a", vcpus=256)), observed(), NOW).steps
    assert isinstance(refusal, Refuse)
    assert "255 at most" in refusal.error.what
    assert plan(state(machine("a", vcpus=255)), observed(), NOW).steps[-1].kind == "start"


def test_a_mode_that_is_pending_is_told_each_time() -> None:
    pending = a40(mig=Mode(False, True), ecc=Mode(True, False))
    steps = plan(state(), observed(gpus=(pending,)), NOW).steps
    assert [type(step) for step in steps] == [WaitForBoot, WaitForBoot]
    assert all("reboot the host" in step.subject for step in steps)
    assert all(outcome.error is None for outcome in planned(steps))


def test_the_outcome_says_where_a_share_was_really_made() -> None:
    wanted = state(machine("a", vgpus=[vgpu("a")]))
    provide = plan(wanted, observed(gpus=(t4(),)), NOW).steps[0]
    assert isinstance(provide, Provide)
    done = Outcome(replace(provide, made=share("a", gpu=SECOND)), done=True)
    assert f"make a T4-4Q on {SECOND} for" in str(done.to_json()["subject"])


@pytest.mark.parametrize(("error", "status"), [(None, 0), ({"code": "failed"}, 1)])
def test_a_plan_with_a_step_that_cannot_be_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Json | None, status: int
) -> None:
    file = tmp_path / "desired.json"
    file.write_text(json.dumps(document()))
    monkeypatch.setattr("vmctl.apply.plan", lambda *_: {"steps": [{"error": error}]})
    site = Site(Host(name="h"), "test:///default", tmp_path, tmp_path, tmp_path, "tessera")
    context = cast("typer.Context", SimpleNamespace(obj=site))
    assert cli.plan_command(context, file, as_json=True) == status


def cut_off() -> Observation:
    """A host where an acceptance was killed, with its guest, its share and its disk."""
    left = acceptance_machine("sim-t4", GPU_ADDRESS)
    guest = running("x")
    guest = replace(guest, machine=left, mark=replace(guest.mark, portal=ACCEPTANCE, machine=left))
    made = share("accept", left)
    assert made.uuid is not None
    disks = (Disk(left, 1, present=True, seed=True),)
    return observed(guest, gpus=(t4(holders=(made,)),), ours=frozenset({made.uuid}), disks=disks)


def test_what_a_cut_off_acceptance_left_goes_with_the_next_apply_unasked() -> None:
    steps = plan(state(), cut_off(), NOW).steps
    assert [step.kind for step in steps] == ["force_stop", "release", "purge"]
    assert isinstance(steps[0], ForceStop)
    assert CUT_OFF in steps[0].subject
    assert isinstance(steps[2], Purge)
    assert steps[2].machine != name_uuid("machine x")
    assert plan(state(), cut_off(), NOW).needs_confirmation == ()


def test_a_signal_waits_for_the_change_that_is_under_way(tmp_path: Path) -> None:
    """Else whoever cleans up looks before it comes, and crosses it out."""
    mark = tmp_path / "changed"
    script = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(mark)!r}).touch()"

    def interrupt() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), changing():
        run_command([sys.executable, "-I", "-S", "-c", script], limit=20)
    assert mark.exists()
