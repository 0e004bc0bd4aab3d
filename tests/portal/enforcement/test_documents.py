"""What goes to a host beside its machines' times, and what comes back beside their states."""

import json

from portal.enforcement.models import HostState, StepLog
from portal.inventory import actions as inventory
from portal.machines.models import VirtualMachine
from tests import make
from tests.portal.enforcement.conftest import Stage
from tests.portal.enforcement.test_life import host_of
from vmctl.plan import desired as documents


def test_the_host_is_told_how_its_cards_should_be_set_and_what_an_image_asks_for(stage: Stage) -> None:
    image = stage.world.image
    image.firmware, image.tpm, image.licence = "uefi-secure", True, 1
    inventory.save_choice(image, by=None, now=make.NOW)
    gone = make.gpu_facts("0000:5e:00.0")
    inventory.record_inventory(stage.world.host, {"gpus": [gone]}, make.at(-1))
    stage.world.book(1, 3)
    stage.at(1).tick()
    asked = host_of(stage).calls[-1]
    assert [(card["gpu"], card["regime"]) for card in asked["cards"]] == [("0000:3b:00.0", None)]
    (machine,) = asked["machines"]
    assert (machine["firmware"], machine["tpm"], machine["seed"]["licence"]) == ("uefi-secure", True, 1)
    assert [(vgpu["slot"], vgpu["alternatives"]) for vgpu in machine["vgpus"]] == [([0, 1], [])]
    assert documents.parse(json.dumps(asked)).machines


def test_what_the_console_shows_and_the_licence_are_known_while_it_runs(stage: Stage) -> None:
    reservation, host = stage.world.book(1, 3), host_of(stage)
    host.screen = "boot"
    stage.at(1).tick()
    for vgpu in host.vgpus.values():
        vgpu["licence"] = "licensed until 2027-03-02 09:00:00 GMT"
    host.lost.add(str(reservation.machine_id))
    stage.at(1.01).tick()
    machine = VirtualMachine.objects.get()
    assert (machine.screen, machine.licence[:8], machine.disk_missing) == ("boot", "licensed", True)
    host.lost.clear()
    stage.at(3).tick()
    stage.at(3.01).tick()
    machine.refresh_from_db()
    assert (machine.screen, machine.licence, machine.disk_missing) == ("", "", False)


def test_a_change_that_waits_for_its_holders_is_shown_and_not_logged_each_time(stage: Stage) -> None:
    host = host_of(stage)
    host.always = [{"kind": "wait", "machine": None, "subject": "ECC on 0000:3b:00.0", "done": False, "error": None}]
    stage.tick()
    report = HostState.objects.get().report
    assert report is not None
    assert report["steps"] == host.always
    assert not StepLog.objects.exists()


def test_a_failure_that_lasts_is_logged_once(stage: Stage) -> None:
    """Ten seconds from tick to tick: a typo in a card's settings would fill the table."""
    error = {"code": "failed", "what": "There is no GPU.", "remedy": "Look at vmctl gpus.", "retry": False}
    step = {"kind": "card", "machine": None, "subject": "set 0000:99:00.0", "done": False, "error": error}
    host = host_of(stage)
    for hour, what in enumerate(("There is no GPU.", "There is no GPU.", "It is held.")):
        host.always = [step | {"error": error | {"what": what}}]
        stage.at(hour).tick()
    assert [(log.error or {})["what"] for log in StepLog.objects.order_by("pk")] == ["There is no GPU.", "It is held."]
