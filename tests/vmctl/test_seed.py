"""The seed: exactly the intended keys, whatever the values are."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import machine, wish
from vmctl.errors import VmctlError
from vmctl.host import Answer, Host
from vmctl.machine import licence, seed
from vmctl.machine.domain import Wiring
from vmctl.model import DesiredMachine

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


# The licence token ---------------------------------------------------------------------------------

TOKEN = b"eyJhbGciOi.a-secret-of-the-site.~"


def licensed(kind: int = 1) -> DesiredMachine:
    return wish("a", seed=machine()["seed"] | {"licence": kind})


@pytest.mark.parametrize("kind", [0, 1, 2, 4])
def test_the_token_and_one_feature_type_are_written_and_the_service_is_told(kind: int) -> None:
    found = user_data(seed.documents(licensed(kind), WIRING, TOKEN)["user-data"])
    assert found["runcmd"] == [["systemctl", "restart", "nvidia-gridd"]]
    files = found["write_files"]
    assert isinstance(files, list)
    assert [(file["path"], file["permissions"], base64.b64decode(file["content"])) for file in files] == [
        ("/etc/nvidia/ClientConfigToken/client_configuration_token.tok", "0744", TOKEN),
        ("/etc/nvidia/gridd.conf", "0644", f"FeatureType={kind}\n".encode()),
    ]


def test_an_image_that_asks_for_no_licence_gets_none() -> None:
    assert not {"write_files", "runcmd"} & user_data(seed.documents(wish("a"), WIRING)["user-data"]).keys()


def secret(path: Path, content: bytes = TOKEN, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_token_is_read_from_a_file_of_roots_alone(tmp_path: Path) -> None:
    assert licence.token(secret(tmp_path / "token")) == TOKEN


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: None, "No such file"),
        (lambda path: secret(path, mode=0o640), "can be read by others"),
        (lambda path: secret(path, mode=0o604), "can be read by others"),
        (lambda path: secret(path, b" \n"), "empty"),
        (lambda path: secret(path, b"x" * (licence.LARGEST + 1)), "too large"),
        (lambda path: path.mkdir(), "is no file"),
        (lambda path: os.mkfifo(path, 0o600), "is no file"),
    ],
)
def test_what_is_no_secret_or_no_token_is_refused_in_words(
    make: Callable[[Path], object], word: str, tmp_path: Path
) -> None:
    make(tmp_path / "token")
    with pytest.raises(VmctlError, match=word) as caught:
        licence.token(tmp_path / "token")
    assert (caught.value.retry, str(tmp_path / "token") in caught.value.what) == (True, True)
    assert TOKEN.decode() not in str(caught.value)


def test_a_token_of_somebody_elses_file_is_refused(tmp_path: Path) -> None:
    os.chown(secret(tmp_path / "token"), 65534, 65534)
    with pytest.raises(VmctlError, match="others than root"):
        licence.token(tmp_path / "token")


def test_a_seed_that_fails_tells_nothing_of_the_token(tmp_path: Path) -> None:
    def full(command: Sequence[str], *, limit: float, given: str = "") -> Answer:
        return Answer(1, "", f"xorriso : FAILURE : disk full while writing {command[-1]}")

    with pytest.raises(VmctlError) as caught:
        seed.write(Host("here", state_dir=tmp_path, commands=full), tmp_path / "seed.iso", licensed(), WIRING, TOKEN)
    told = str(caught.value)
    assert TOKEN.decode() not in told
    assert base64.b64encode(TOKEN).decode() not in told
    assert list(tmp_path.iterdir()) == []
