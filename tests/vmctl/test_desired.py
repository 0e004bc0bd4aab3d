"""The desired state is read once, at the edge: right values come through, wrong ones are named."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import Json, document, machine, vgpu
from vmctl import desired
from vmctl.card import Regime
from vmctl.errors import VmctlError
from vmctl.model import Order


def refusal(value: object) -> VmctlError:
    with pytest.raises(VmctlError) as caught:
        desired.parse(value if isinstance(value, str) else json.dumps(value))
    assert caught.value.code == "bad_input"
    assert caught.value.exit_code == 2
    assert caught.value.remedy
    return caught.value


def test_a_whole_state_comes_through() -> None:
    text = json.dumps(document(machine("a", vgpus=[vgpu("a"), vgpu("b", regime="whole", cell=None, handle=None)])))
    state = desired.parse(text)
    first, second = state.machines[0].vgpus
    assert (state.generation, state.machines[0].order) == (1, Order.RUN)
    assert (first.cell, first.handle, first.regime) == ((0, 1), 0, Regime.EQUAL)
    assert (second.cell, second.handle, second.regime) == (None, None, Regime.WHOLE)
    assert state.machines[0].name.startswith("ada-a-")


def test_a_machine_that_only_stops_needs_no_other_form() -> None:
    assert desired.parse(json.dumps(document(machine(order="stop")))).machines[0].order is Order.STOP


WRONG = [
    ({"generation": -1}, "generation"),
    ({"generation": True}, "generation"),
    ({"generation": 1.0}, "generation"),
    ({"portal": "x"}, "portal"),
    ({"host": "-oProxyCommand=x"}, "host"),
    ({"host": "a b"}, "host"),
    ({"schema": 2}, "schema"),
    ({"machines": {}}, "machines"),
    ({"confirmed_stops": ["x"]}, "confirmed_stops"),
    ({"purge": None}, "purge"),
    ({"surprise": 1}, "surprise"),
    ({"stop_grace_seconds": 10**9}, "stop_grace_seconds"),
]


@pytest.mark.parametrize(("change", "named"), WRONG)
def test_a_wrong_field_is_named(change: Json, named: str) -> None:
    assert named in refusal(document() | change).what


WRONG_MACHINE = [
    ({"end": "2026-12-01T10:00:00"}, "end"),
    ({"end": 1796121000}, "end"),
    ({"end": "1999-12-01T10:00:00+00:00"}, "end"),
    ({"end": "2020-12-01T10:00:00Z"}, "end"),
    ({"order": "explode"}, "order"),
    ({"image": "../../etc/passwd"}, "image"),
    ({"vcpus": "four"}, "vcpus"),
    ({"memory_mib": 0}, "memory_mib"),
    ({"vgpus": [vgpu("a", gpu="3b:00.0")]}, "vgpus[0].gpu"),
    ({"vgpus": [vgpu("a", cell=[2, 1])]}, "vgpus[0].cell"),
    ({"vgpus": [vgpu("a", cell=[0, True])]}, "vgpus[0].cell"),
    ({"vgpus": [vgpu("a", handle=-1)]}, "vgpus[0].handle"),
]


@pytest.mark.parametrize(("change", "named"), WRONG_MACHINE)
def test_a_wrong_field_of_a_machine_is_named_with_its_place(change: Json, named: str) -> None:
    assert f"machines[0].{named}" in refusal(document(machine() | change)).what


HOSTILE = [
    "a; touch /tmp/x",
    "$(id)",
    "`id`",
    "a\nb",
    "x" * 256,
    "<a/>",
    "a&b",
    "it's",
    'say "x"',
    "]]>",
    "-a",
    "Ä",
    "",
]


@pytest.mark.field("G08")
@pytest.mark.field("G09")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_host_name_is_refused(name: str) -> None:
    assert "hostname" in refusal(document(machine(hostname=name))).what


@pytest.mark.field("G11")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("owner", "ada\nruncmd: [x]"),
        ("period", "a\tb"),
        ("user", "root: x"),
        ("password_hash", "secret"),
        ("password_hash", "$6$a$b:x"),
        ("ssh_keys", ["ssh-ed25519 AAAA\nssh-rsa BBBB"]),
        ("ssh_keys", "ssh-ed25519 AAAA"),
    ],
)
def test_a_seed_value_that_could_add_lines_is_refused(field: str, value: Any) -> None:
    seed = machine()["seed"] | {field: value}
    assert f"seed.{field}" in refusal(document(machine(seed=seed))).what


def test_a_missing_field_is_named() -> None:
    whole = document(machine())
    del whole["machines"][0]["seed"]["user"]
    assert "machines[0].seed.user is missing" in refusal(whole).what


def test_a_machine_is_listed_once() -> None:
    assert "twice" in refusal(document(machine("a"), machine("a"))).what
    assert "twice" in refusal(document(machine("a", vgpus=[vgpu("x")]), machine("b", vgpus=[vgpu("x")]))).what


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '{"schema": NaN}', "[" * 100_000])
def test_no_json_object_is_a_sentence(text: str) -> None:
    refusal(text)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_any_value_in_any_field_is_taken_or_refused_and_never_a_crash(data: st.DataObject) -> None:
    whole = document(machine("a", vgpus=[vgpu("a")]))
    part = data.draw(st.sampled_from([whole, whole["machines"][0], whole["machines"][0]["seed"], vgpu("a")]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(ANY_JSON)
    with suppress(VmctlError):
        desired.parse(json.dumps(whole))
