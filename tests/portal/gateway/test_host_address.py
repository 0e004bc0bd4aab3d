"""What an operator may type as a host: known forms only, whatever ssh would make of the rest."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.host_address import HostAddress, SSHAddress, fingerprint

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIwPXmMqmGk3uMr6wIYZvcWvqkDVX1tF0gO1k8yA2yzs"
CALM = re.compile(r"[a-z0-9_][a-z0-9_.:-]*")  # no sign of a shell, of a URI, of ssh's configuration or of an option


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("root@gpu1", "root", "gpu1", 22),
        ("root@GPU1.Example.org:2222", "root", "gpu1.example.org", 2222),
        ("_vmctl-1@192.0.2.7", "_vmctl-1", "192.0.2.7", 22),
        ("root@[2001:db8:0:0::7]:65535", "root", "2001:db8::7", 65535),
        ("root@[::1]", "root", "::1", 22),
        ("root@7up.example", "root", "7up.example", 22),
    ],
)
def test_a_known_form_is_taken(text: str, user: str, host: str, port: int) -> None:
    assert SSHAddress.parse(text) == SSHAddress(user, host, port)


def test_an_address_is_written_as_it_is_read() -> None:
    for text in ("root@gpu1", "root@gpu1:2222", "root@[2001:db8::7]:23", "root@[::1]"):
        assert str(SSHAddress.parse(text)) == text


@pytest.mark.field("G10")
@pytest.mark.parametrize(
    "text",
    [
        "root@-oProxyCommand=x",
        "root@[-oProxyCommand=x]",
        "root@[-oProxyCommand=x]:22",
        "-oProxyCommand=x",
        "[-oProxyCommand=x]",
        "-lroot@gpu1",
        "root@gpu1:-22",
        "root@gpu1?command=x",
        "root@gpu1?keyfile=/tmp/x",
        "root@gpu1?socket=/tmp/x",
        "root@gpu1/system?no_verify=1",
        "qemu+ssh://root@gpu1.example/system?command=x",
        "root@gpu1 -oProxyCommand=x",
        "root@gpu1\n-oProxyCommand=x",
        "root@gpu1\n",
        "root@%h",
        "root@${HOME}",
        "root@gpu1,gpu2",
        "root@gpu1%eth0",
        "root@[fe80::1%eth0]",
        "root@[fe80::1%-o]",
        "root:secret@gpu1",
    ],
)
def test_what_ssh_would_read_as_an_option_or_more_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"[.:]"):
        SSHAddress.parse(text)


@pytest.mark.field("G09")
@pytest.mark.parametrize(
    "part", ["a; touch /tmp/x", "$(id)", "`id`", "a\nb", "a" * 256, "a'b", 'a"b', "a|b", "a&b", "", "a b"]
)
def test_signs_of_a_shell_are_refused_in_user_and_host(part: str) -> None:
    for text in (f"{part}@gpu1", f"root@{part}", f"root@[{part}]", f"root@gpu1:{part}"):
        with pytest.raises(ValueError, match=r"[.:]"):
            SSHAddress.parse(text)


NO_HOSTS = ["::1", "[]", "1.2.3", "1", "999.1.1.1", "127.1", "[192.0.2.7]"]
NO_HOSTS += ["", "gpu1.", ".gpu1", "a..b", "gpu_1", "gpü1", "a-", "a" * 64, "a." * 127 + "a"]
HALF_FORMS = [
    "gpu1",
    "@gpu1",
    "Root@gpu1",
    "0root@gpu1",
    "root@gpu1:",
    "root@gpu1:0",
    "root@gpu1:65536",
    "root@gpu1:٢٢",
]


@pytest.mark.parametrize("text", [*HALF_FORMS, *(f"root@{host}" for host in NO_HOSTS)])
def test_half_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"[.:]"):
        SSHAddress.parse(text)


@pytest.mark.field("G10")
@given(st.text(max_size=40) | st.from_regex(r"[-a-z@:\[\]=.%0-9\n]{0,40}", fullmatch=True))
def test_whatever_passes_is_calm(text: str) -> None:
    try:
        address = SSHAddress.parse(text)
    except ValueError:
        return
    assert CALM.fullmatch(address.user)
    assert CALM.fullmatch(address.host) or address.host.startswith(":")
    assert SSHAddress.parse(str(address)) == address


@given(
    st.from_regex(r"[a-z_][a-z0-9_-]{0,31}", fullmatch=True),
    st.ip_addresses().map(str)
    | st.from_regex(r"[a-z][a-z0-9]{0,9}(\.[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?){0,3}", fullmatch=True),
    st.integers(1, 65535),
)
def test_every_known_form_comes_back_as_it_was(user: str, host: str, port: int) -> None:
    address = SSHAddress(user, host, port)
    assert SSHAddress.parse(str(address)) == address


@pytest.mark.field("G10")
def test_no_other_door_leads_round_the_list() -> None:
    for user, host, port in (("-lroot", "gpu1", 22), ("root", "-oProxyCommand=x", 22), ("root", "gpu1", 0)):
        with pytest.raises(ValueError, match=r"[.:]"):
            SSHAddress(user, host, port)
    with pytest.raises(ValueError, match="log-in"):
        HostAddress("gpu1", "ssh")
    with pytest.raises(ValueError, match="log-in"):
        HostAddress("gpu1", "local", ssh=SSHAddress("root", "gpu1"))


def test_a_fingerprint_is_what_ssh_shows() -> None:
    assert re.fullmatch(r"SHA256:[A-Za-z0-9+/]{43}", fingerprint(KEY))


@pytest.mark.field("G10")
@pytest.mark.parametrize(
    "key",
    [
        f"{KEY}\n* ssh-ed25519 {KEY.split()[1]}",
        f"{KEY} comment",
        f"{KEY}\n",
        KEY.replace("ssh-ed25519", "ssh-rsa"),
        KEY[:-1],
        f"@cert-authority {KEY}",
        f"ssh-dss {KEY.split()[1]}",
        "ssh-ed25519",
        "ssh-ed25519 " + "A" * 68,
    ],
)
def test_a_host_key_of_another_form_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        SSHAddress("root", "gpu1", 22, key)
