"""Whatever a desired state says, it reaches XML, YAML, paths and commands only as a plain value, or not at all."""

from __future__ import annotations

import ast
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import document, machine, vgpu
from tests.vmctl.test_domain import WIRING, blueprint
from vmctl.errors import Code, VmctlError
from vmctl.machine import domain, seed, storage
from vmctl.model import DesiredState
from vmctl.plan import desired, reconcile

HOSTILE = [
    "", "..", "../../etc/passwd", "/etc/shadow", "-oProxyCommand=x", "a;touch /tmp/x", "$(id)", "`id`", "a\nb", "a\tb",
    "a\0b", "<x/>", "]]>", "&lt;", "'\"", "{{x}}", "%s", "x" * 300, "\u202ea", "\N{PILE OF POO}", "a: b", "- a", "#x",
]  # fmt: skip
VMCTL = Path(domain.__file__).parent


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every text of a document."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(inner, (*path, key))


def full() -> dict[str, Any]:
    place = {"gpu": "0000:af:00.0", "cell": [0, 1], "handle": 0, "slot": [0, 1]}
    one = machine("a", vgpus=[vgpu("a", alternatives=[place])])
    one["seed"]["ssh_keys"] = ["ssh-ed25519 AAAA ada"]
    card = {"gpu": "0000:3b:00.0", "regime": "equal", "vfs": None, "ecc": None, "types": ["T4-4Q"]}
    return document(one, cards=[card | {"scheduler": {"policy": "fixed_share", "time_slice_us": 3000}}])


PATHS = sorted(texts(full()), key=str)


def put(path: tuple[Any, ...], text: str) -> str:
    """The document with this text in that place."""
    whole = full()
    inside = whole
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = text
    return json.dumps(whole)


def parsed(text: str) -> DesiredState | VmctlError:
    try:
        return desired.parse(text)
    except VmctlError as error:
        return error


@pytest.mark.field("G08")
@pytest.mark.field("G09")
@pytest.mark.field("G11")
@given(
    st.sampled_from(PATHS),
    st.sampled_from(HOSTILE) | st.text(max_size=40) | st.from_regex(r"[a-z.;$<&'\"\n/-]{1,20}", fullmatch=True),
)
def test_a_hostile_text_is_refused_or_stays_a_value(path: tuple[Any, ...], text: str) -> None:
    state = parsed(put(path, text))
    if isinstance(state, VmctlError):
        assert state.code == Code.BAD_INPUT
        assert str(path[-1]) in state.what or isinstance(path[-1], int)
        return
    wish = state.machines[0]
    plan = replace(blueprint(), machine=wish, mark=reconcile.mark(state, wish))
    shape = [element.tag for element in ET.fromstring(domain.render(blueprint())).iter()]
    assert [element.tag for element in ET.fromstring(domain.render(plan)).iter()] == shape
    told = seed.documents(wish, WIRING)
    user_data = json.loads(told["user-data"].split("\n", 1)[1])
    assert user_data.keys() == {"hostname", "users", "tessera"}
    assert {"name", "passwd", "lock_passwd", "shell", "ssh_authorized_keys"} == user_data["users"][0].keys()
    for made in (storage.folder(Path("/s"), wish.machine), Path("/i") / f"{wish.image}.qcow2"):
        assert made.parent in (Path("/s"), Path("/i"))
        assert ".." not in made.parts
    assert not wish.name.startswith("-")
    assert not wish.image.startswith("-")


def test_no_command_goes_through_a_shell() -> None:
    """Argument lists only: `shell=True`, os.system and their like stand nowhere."""
    found = []
    for file in sorted(VMCTL.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                shell = any(keyword.arg == "shell" for keyword in node.keywords)
                if shell or name in ("os.system", "os.popen", "subprocess.getoutput", "eval", "exec"):
                    found.append(f"{file.relative_to(VMCTL)}:{node.lineno}")
    assert found == []
