"""Rules of the house that no other tool keeps.  Each failure says where and what to do instead."""

from __future__ import annotations

import ast
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("portal", "vmctl", "scripts")
FILE_LINES, FUNCTION_LINES = 300, 30

WRITES = {"create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update", "delete", "save"}
WRITES |= {f"a{name}" for name in WRITES}
CLOCKS = {"timezone.now", "datetime.now", "datetime.utcnow", "date.today", "time.time"}

# Addresses that are no machine's: documentation, name spaces, and names that are reserved for examples.
OWN_NAMES = re.compile(
    r"(127\.0\.0\.1|localhost|host|\[::1\]|([a-z0-9-]+\.)*(example|invalid|test|localhost)|([a-z0-9-]+\.)*example\.(org|com|net))"
)
DOCUMENTATION = {
    "docs.djangoproject.com",
    "docs.nvidia.com",
    "github.com",
    "json-schema.org",
    "libvirt.org",
    "www.apache.org",
    "www.kernel.org",
    "www.w3.org",
}
# Networks that belong to nobody (RFC 1918, 5737, 6598 and the like).
NOBODYS = re.compile(
    r"(0|10|127|22[4-9]|23\d|24\d|25[0-5])\.|172\.(1[6-9]|2\d|3[01])\.|192\.168\.|192\.0\.[02]\.|198\.51\.100\.|203\.0\.113\.|"
    r"169\.254\.|198\.1[89]\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\."
)
URL_HOST = re.compile(r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@\"'<>]*@)?(\[[0-9a-f:]+\]|[A-Za-z0-9.-]+)")
IPV4 = re.compile(r"(?<![\w.:-])((?:\d{1,3}\.){3}\d{1,3})(?![\w.])")
MACHINE_PATH = re.compile(r"(?<![\w.}])/(root|work|Users|home/[a-z][a-z0-9_-]*|tmp/w)/[\w.]")


@cache
def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file() and not file.is_symlink()]


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """Every tracked module of these packages with its path from the root; migrations are Django's to write."""
    for file in tracked():
        inside = file.relative_to(ROOT)
        if file.suffix == ".py" and inside.parts[0] in packages and "migrations" not in inside.parts:
            yield str(inside), ast.parse(file.read_text())


def texts() -> Iterator[tuple[str, int, str]]:
    """Every line of every tracked text file but the locks, which their tools write."""
    for file in tracked():
        inside = str(file.relative_to(ROOT))
        if inside.startswith("requirements/") or inside in ("package-lock.json", "LICENSE"):
            continue
        try:
            lines = file.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # a picture
        for number, line in enumerate(lines, 1):
            yield inside, number, line


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute, a name or a call's function; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def places(packages: tuple[str, ...], wrong: Callable[[ast.AST], bool], allowed: str) -> list[str]:
    """Where a node is wrong, in files whose path does not match `allowed`."""
    found = []
    for path, tree in modules(*packages):
        if not re.fullmatch(allowed, path):
            found += [f"{path}:{getattr(node, 'lineno', 0)}" for node in ast.walk(tree) if wrong(node)]
    return found


def test_files_are_short() -> None:
    """Past 300 lines, split by noun."""
    long = []
    for file in tracked():
        if file.suffix in (".py", ".js", ".mjs", ".sh", ".html", ".css") and "migrations" not in file.parts:
            lines = len(file.read_text().splitlines())
            if lines > FILE_LINES:
                long.append(f"{file.relative_to(ROOT)}: {lines}")
    assert long == []


@pytest.mark.parametrize("package", PROGRAMS)
def test_nine_functions_in_ten_are_short(package: str) -> None:
    lengths = {}
    for path, tree in modules(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths[f"{path}:{node.lineno} {node.name}"] = (node.end_lineno or 0) - node.lineno + 1
    long = {name: length for name, length in lengths.items() if length > FUNCTION_LINES}
    assert len(long) * 10 <= len(lengths), long


def test_only_actions_write() -> None:
    """Tables are written in an app's actions.py; dicts are merged with |, so .update( always means a query."""

    def writes(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES

    assert places(("portal",), writes, r"portal/\w+/actions(_\w+|/\w+)?\.py") == []


def test_nothing_asks_whether_it_is_simulated() -> None:
    """Only vmctl/cli.py, which picks the host, and vmctl/simulate/, which is one."""

    def asks(node: ast.AST) -> bool:
        if not isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            return False
        return any(dotted(part).split(".")[-1] in ("simulated", "is_simulated") for part in ast.walk(node.test))

    assert places(("portal", "vmctl"), asks, r"vmctl/(cli|simulate)\.py") == []


def test_everything_is_caught_at_three_borders_only() -> None:
    """A task's end, a consumer's end, and the command line's main."""

    def broad(node: ast.AST) -> bool:
        if not isinstance(node, ast.ExceptHandler) or ast.unparse(node.body[-1]) == "raise":
            return False  # clearing up and passing it on is no catching
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        return any(each is None or dotted(each) in ("Exception", "BaseException") for each in caught)

    assert places(PROGRAMS, broad, r"portal/\w+/(tasks|consumers)\.py|vmctl/cli\.py") == []


def calls(names: set[str]) -> Callable[[ast.AST], bool]:
    def one_of_them(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ".".join(dotted(node.func).split(".")[-2:]) in names

    return one_of_them


def test_there_is_one_clock() -> None:
    """The portal's is the database's; vmctl's is its host's."""
    assert places(("portal", "vmctl"), calls(CLOCKS), r"portal/clock\.py|vmctl/(cli|host)\.py") == []


def test_time_is_a_parameter() -> None:
    """What decides, writes or talks to a host is told the time by what was asked: a view, a task, a consumer."""
    edges = "access|admin|api|backends|consumers|context|forms|middleware|monitor|receivers|tasks|views"
    allowed = rf"portal/(\w+/)?({edges})\.py|portal/\w+/management/commands/\w+\.py"
    assert places(("portal",), calls({"clock.now"}), allowed) == []


def test_no_address_of_a_machine_is_tracked() -> None:
    found = []
    for path, number, line in texts():
        for host in URL_HOST.findall(line):
            name = host.rstrip(".")
            if not name.isupper() and name and not OWN_NAMES.fullmatch(name) and name not in DOCUMENTATION:
                found.append(f"{path}:{number}: {host}")
        for address in IPV4.findall(line):
            if all(int(part) < 256 for part in address.split(".")) and not NOBODYS.match(address):
                found.append(f"{path}:{number}: {address}")
    assert found == []


def test_no_path_or_name_of_a_machine_is_tracked() -> None:
    name = re.compile(rf"\b{re.escape(socket.gethostname())}\b")
    telling = len(socket.gethostname()) > 5 and socket.gethostname() not in ("debian", "ubuntu", "localhost")
    found = []
    for path, number, line in texts():
        if path != "tests/test_house_rules.py" and (MACHINE_PATH.search(line) or (telling and name.search(line))):
            found.append(f"{path}:{number}: {line.strip()[:100]}")
    assert found == []


def settings_read() -> set[str]:
    """The names that portal/settings.py reads from the environment, by the readers of portal/environment.py."""
    names = set()
    for path, tree in modules("portal"):
        if path == "portal/settings.py":
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and dotted(node.func).startswith(("env.", "os.environ")) and node.args:
                    first = node.args[0]
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        names.add(first.value)
    assert names, "portal/settings.py reads no setting in a way that this test knows"
    return names


def section(title: str) -> str:
    text = (ROOT / "README.md").read_text()
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no section {title}"
    return found[1]


def test_every_setting_is_in_the_readme() -> None:
    listed = set(re.findall(r"^\| `([A-Z_]+)`", section("Settings"), re.MULTILINE))
    assert settings_read() - listed == set()
    elsewhere = "\n".join(file.read_text() for file in tracked() if file.parts[-2:-1] == ("scripts",))
    assert [name for name in listed - settings_read() if name not in elsewhere] == [], "listed, but nobody reads it"


def mapped() -> set[str]:
    """The paths of the README's map: the first column, which may name two."""
    lines = [line for line in section("Map").splitlines() if line.startswith("    ")]
    return {word for line in lines for word in re.split(r"\s{2,}", line.strip())[0].split()}


def test_the_map_is_true() -> None:
    assert [path for path in mapped() if not (ROOT / path).exists()] == []


def test_the_map_is_whole() -> None:
    """Every folder with code at the top, and every app of the portal."""
    rooms = set()
    for file in tracked():
        inside = file.relative_to(ROOT).parts
        if len(inside) > 1 and not inside[0].startswith(".") and inside[0] != "requirements":
            rooms.add(f"portal/{inside[1]}/" if inside[0] == "portal" and len(inside) > 2 else f"{inside[0]}/")
    named = mapped() | {f"{path.split('/')[0]}/" for path in mapped()}
    assert sorted(rooms - named) == []
