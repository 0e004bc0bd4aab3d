"""The seed: exactly the intended keys, whatever the values are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import machine, wish
from vmctl import seed
from vmctl.domain import Wiring
from vmctl.errors import VmctlError
from vmctl.host import Host

WIRING = Wiring("tessera", "52:54:00:01:02:03", "10.0.0.7", "10.0.0.1", "10.0.0.0", "255.255.255.0")


def user_data(text: str) -> dict[str, object]:
    first, rest = text.split("\n", 1)
    assert first == "#cloud-config"
    found = json.loads(rest)
    assert isinstance(found, dict)
    return found


def test_it_says_who_the_machine_is_and_how_it_is_reached() -> None:
    found = seed.documents(wish("a"), WIRING)
    assert json.loads(found["meta-data"]) == {"instance-id": wish("a").reservation, "local-hostname": "ada-a"}
    (card,) = json.loads(found["network-config"])["ethernets"].values()
    assert card == {
        "match": {"macaddress": WIRING.mac},
        "addresses": ["10.0.0.7/24"],
        "gateway4": "10.0.0.1",
        "nameservers": {"addresses": ["10.0.0.1"]},
    }


def test_a_new_reservation_is_a_new_instance() -> None:
    other = wish("a", reservation="99999999-9999-4999-8999-999999999999")
    assert seed.documents(wish("a"), WIRING)["meta-data"] != seed.documents(other, WIRING)["meta-data"]


@pytest.mark.field("G11")
@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=40))
def test_no_value_can_add_a_key(text: str) -> None:
    values = machine()["seed"] | {"owner": text, "period": text, "vgpu": text}
    if not text.isprintable():
        return
    found = user_data(seed.documents(wish("a", seed=values), WIRING)["user-data"])
    assert found.keys() == {"hostname", "users", "tessera"}
    assert found["tessera"] == {
        "owner": text,
        "period": text,
        "vgpu": text,
        "reservation": wish("a").reservation,
    }


def test_the_image_holds_the_three_files(tmp_path: Path) -> None:
    seed.write(Host("here", state_dir=tmp_path), tmp_path / "seed.iso", wish("a"), WIRING)
    assert (tmp_path / "seed.iso").read_bytes()[32808:32814] == b"CIDATA"
    assert (tmp_path / "seed.iso").stat().st_mode & 0o777 == 0o600
    listed = subprocess.run(
        ["xorriso", "-indev", tmp_path / "seed.iso", "-find", "/", "-type", "f"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert sorted(line.strip("'/") for line in listed.stdout.split()) == ["meta-data", "network-config", "user-data"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed.iso"]


def test_a_folder_that_is_not_there_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises((VmctlError, OSError)):
        seed.write(Host("here", state_dir=tmp_path), tmp_path / "gone" / "seed.iso", wish("a"), WIRING)
    assert list(tmp_path.iterdir()) == []
