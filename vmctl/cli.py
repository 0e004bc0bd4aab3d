"""The command line: picks the host, reads, calls one verb, prints. The only place that knows about `--json`."""

import io
import json
import os
import platform
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import typer
import typer.exceptions

from vmctl import accept as accepting
from vmctl import apply as applying
from vmctl import checks, gpus, observe, options, simulate, state
from vmctl import console as screens
from vmctl import expire as expiring
from vmctl import serve as serving
from vmctl import usage as using
from vmctl.answers import cards as cards_report
from vmctl.answers import catalogue, report, tables
from vmctl.copied import copied
from vmctl.documents import Json
from vmctl.errors import Exit, VmctlError, bad_input, refused_by_host
from vmctl.host import STATE_DIR, Host
from vmctl.hypervisor import connect
from vmctl.options import AsJson, Document
from vmctl.plan import desired
from vmctl.site import LICENCE_TOKEN, Site

app = typer.Typer(no_args_is_help=False, add_completion=False, help="Makes it so, on one host.")


@app.callback()
def place(
    context: typer.Context,
    libvirt_uri: options.LibvirtURI = "qemu:///system",
    state_dir: options.StateDir = STATE_DIR,
    storage_dir: options.StorageDir = Path("/var/lib/tessera/machines"),
    images_dir: options.ImagesDir = Path("/var/lib/tessera/images"),
    run_dir: options.RunDir = Path("/run/tessera"),
    network: options.Network = "tessera",
    licence_token: options.LicenceToken = LICENCE_TOKEN,
    host: options.HostName = "",
    root: options.Root = Path("/"),
    layout: options.Layout = "",
    version: options.Version = False,
    debug: options.Debug = False,
) -> None:
    """Makes it so, on one host."""
    name = host or platform.node().split(".")[0].lower()
    if not re.fullmatch(desired.HOST, name):
        raise bad_input(f"{name!r} is no host name.", "Give --host with small letters, digits, dots and dashes.")
    context.obj = Site(
        host=_host(name, root.absolute(), state_dir.absolute(), layout),
        libvirt_uri=libvirt_uri,
        storage=storage_dir.absolute(),
        images=images_dir.absolute(),
        run_dir=run_dir.absolute(),
        network=network,
        licence_token=licence_token.absolute(),
    )


def _host(name: str, root: Path, state_dir: Path, layout: str) -> Host:
    if not layout:
        return Host(name=name, state_dir=state_dir) if root == Path("/") else copied(name, root, state_dir)
    if root == Path("/"):
        raise bad_input("A simulated host needs a folder of its own.", "Give --root with the folder to simulate in.")
    simulate.prepare(root, layout)
    return simulate.SimulatedHost(name=name, root=root, state_dir=state_dir)


@app.command("observe")
def observe_command(context: typer.Context, as_json: AsJson = False) -> int:
    """What is on this host. Changes nothing."""
    site: Site = context.obj
    site.host.ensure_live()
    memory = state.recall(site.host.state_dir)
    with connect(site.libvirt_uri) as hypervisor:
        found = observe.observe(site, hypervisor, None if memory is None else memory.portal, site.host.now())
    _print(report.report_json(found, memory), as_json, tables.show_report)
    return Exit.DONE


@app.command("plan")
def plan_command(context: typer.Context, file: Document = None, as_json: AsJson = False) -> int:
    """What apply would do. Changes nothing. Exit code 1 when a step cannot be."""
    site: Site = context.obj
    site.host.ensure_live()
    document = applying.plan(site, desired.parse(options.read(file)), site.host.now())
    _print(document, as_json, tables.show_report)
    return _steps_exit(document)


@app.command("apply")
def apply_command(context: typer.Context, file: Document = None, as_json: AsJson = False) -> int:
    """Bring this host to the desired state. Exit code 1 when a step did not work."""
    site: Site = context.obj
    site.host.ensure_live()
    document = applying.apply(site, desired.parse(options.read(file)), site.host.now())
    _print(document, as_json, tables.show_report)
    return _steps_exit(document)


@app.command("expire")
def expire_command(context: typer.Context, as_json: AsJson = False) -> int:
    """End machines at their end while the portal is silent; for a timer."""
    site: Site = context.obj
    site.host.ensure_live()
    document = expiring.expire(site, site.host.now())
    _print(document, as_json, tables.show_report)
    return _steps_exit(document)


@app.command("gpus")
def gpus_command(context: typer.Context, as_json: AsJson = False) -> int:
    """The GPUs of this host, what they can be cut into, and who has what of them."""
    site: Site = context.obj
    cards, whose, unknown = observe.cards_and_claims(site)
    document = cards_report.gpus_json(site.host.name, site.host.now(), site.host.simulated, cards, whose, unknown)
    _print(document, as_json, tables.show_gpus)
    return Exit.DONE


@app.command("types")
def types_command(context: typer.Context, as_json: AsJson = False) -> int:
    """The vGPU types of this host, and how many more of each its GPUs take now."""
    host = context.obj.host
    cards, unsure = gpus.inventory(host), gpus.doubtful(host)
    document = catalogue.types_json(host.name, host.now(), host.simulated, cards, unsure)
    _print(document, as_json, tables.show_types)
    return Exit.DONE


@app.command("check")
def check_command(context: typer.Context, as_json: AsJson = False) -> int:
    """Whether this host is fit. Exit code 1 when a check failed, else 3 when one could not tell."""
    site: Site = context.obj
    now = site.host.now()
    findings = checks.run(site)
    _print(checks.document(site, findings, now), as_json, tables.show_findings)
    return checks.exit_status(findings)


@app.command("usage")
def usage_command(context: typer.Context, as_json: AsJson = False) -> int:
    """What machines use of this host, and how busy its GPUs are. Cheap enough for every 10 s."""
    _print(using.look(context.obj), as_json, tables.show_usage)
    return Exit.DONE


@app.command("accept")
def accept_command(
    context: typer.Context,
    gpu: options.CardAddress,
    rounds: options.Rounds = 20,
    image: options.ImageName = "demo",
    file: options.ReportFile = None,
    as_json: AsJson = False,
) -> int:
    """Try an empty card: every type up to its limit, and a guest. Exit code 1 when it is in use or not as told."""
    site: Site = context.obj
    site.host.ensure_live()
    document = accepting.accept(site, gpu, rounds, image, lambda line: print(line, file=sys.stderr))
    if file is not None:
        options.write(file, json.dumps(document, indent=2) + "\n")
    _print(document, as_json, tables.show_acceptance)
    return Exit.DONE if document["accepted"] else Exit.FAILED


@app.command("console")
def console_command(
    context: typer.Context,
    machine: options.Machine,
    as_json: AsJson = False,
) -> int:
    """Join a machine's screen to standard input and output. Errors go to standard error."""
    screens.relay(screens.open_screen(context.obj, str(machine)), sys.stdin.fileno(), sys.stdout.fileno())
    return Exit.DONE


@app.command("serve")
def serve_command(context: typer.Context, key: options.Key) -> int:
    """The forced command of a portal's key: does what SSH_ORIGINAL_COMMAND says, if that key may."""
    asked = os.environ.pop(serving.ASKED, "")  # what a stranger wrote goes no further
    try:
        request = serving.parse(key, asked)
    except VmctlError as error:
        if key is not serving.Key.CONSOLE:  # whose standard error has the document itself
            print(f"vmctl: {error}", file=sys.stderr)
        raise
    verb = typer.main.get_command(app).commands[request.verb]  # type: ignore[attr-defined]
    call = partial(verb.main, args=[*request.words], prog_name="vmctl", obj=context.obj, standalone_mode=False)
    return serving.run(request, lambda: _ended([request.verb, *request.words], call))


class _Unheard(Exception):
    """Standard output takes nothing more: there is nothing left to tell but this."""


def _print(document: Json, as_json: bool, show: Callable[[Json], None]) -> None:
    with _heard():
        if as_json:
            print(json.dumps(document))
        else:
            show(document)


@contextmanager
def _heard() -> Iterator[None]:
    """What is written in here is out afterwards. Raises _Unheard where it cannot be."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        raise _Unheard(error.strerror) from error


def _steps_exit(document: Json) -> int:
    steps = document["steps"]
    assert isinstance(steps, list)
    return Exit.FAILED if any(step["error"] for step in steps) else Exit.DONE


def main() -> None:
    """Run the command line; every error ends as one sentence and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal has every letter
    arguments = sys.argv[1:]
    sys.exit(_ended(arguments, partial(app, args=arguments, prog_name="vmctl", standalone_mode=False)))


def _ended(arguments: list[str], call: Callable[[], int | None]) -> int:
    """The exit status of a call, all that it said being out."""
    try:
        with _heard():
            return _run(arguments, call)
    except _Unheard as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would complain at its end
        if not isinstance(error.__cause__, BrokenPipeError):  # nobody reads any more: that is no fault
            print(f"vmctl: Standard output cannot be written: {error}. Give it room.", file=sys.stderr)
        return Exit.FAILED


def _run(arguments: list[str], call: Callable[[], int | None]) -> int:
    try:
        return call() or Exit.DONE
    except VmctlError as error:
        _complain(error, arguments)
        return error.exit_code
    except typer.exceptions.TyperException as error:
        _complain(bad_input(f"{error.format_message().rstrip('.')}.", "See vmctl --help."), arguments)
        return Exit.BAD_INPUT
    except typer.Abort:
        return Exit.FAILED
    except _Unheard:
        raise
    except OSError as error:
        if "--debug" in arguments:
            traceback.print_exc()
        _complain(refused_by_host(error), arguments)
        return Exit.FAILED
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        what = f"vmctl has a bug: {type(error).__name__}: {error}."
        _complain(VmctlError("bug", what, "Run it again with --debug and report what it prints."), arguments)
        return Exit.FAILED


def _complain(error: VmctlError, arguments: list[str]) -> None:
    """To standard output as JSON, to standard error for people; a screen's bytes are never mixed with either."""
    as_json = "--json" in arguments or "serve" in arguments  # which answers programs alone
    stream = sys.stderr if "console" in arguments or not as_json else sys.stdout
    text = json.dumps(report.error_json(error)) if as_json else f"vmctl: {error}"
    print(text, file=stream)
