"""The words of the command line: its options with their variables, and the files that they name."""

import sys
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from vmctl import __version__, serve
from vmctl.errors import Code, VmctlError, bad_input

LARGEST_DOCUMENT = 32 * 2**20


def _from(name: str, variable: str, text: str, **more: Any) -> typer.models.OptionInfo:
    return typer.Option(name, envvar=variable, help=text, **more)  # type: ignore[no-any-return]


def _place(name: str, variable: str, text: str) -> typer.models.OptionInfo:
    """A path. An empty one would mean the folder that the caller happens to be in."""

    def named(value: Path) -> Path:
        if value == Path():
            raise bad_input(f"{name} is empty.", f"Give {name} a path, or leave it out.")
        return value

    # Whether it may be read is seen when it is: who may not shall be told what he misses, and see the rest.
    return _from(name, variable, text, callback=named, readable=False)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


# The place ----------------------------------------------------------------------------------------

LibvirtURI = Annotated[str, _from("--libvirt-uri", "LIBVIRT_URI", "Where libvirt listens.")]
StateDir = Annotated[Path, _place("--state-dir", "VMCTL_STATE_DIR", "What vmctl remembers: lock, generation, journal.")]
StorageDir = Annotated[Path, _place("--storage-dir", "VMCTL_STORAGE_DIR", "One folder per machine.")]
ImagesDir = Annotated[Path, _place("--images-dir", "VMCTL_IMAGES_DIR", "Images, NAME.qcow2.")]
RunDir = Annotated[Path, _place("--run-dir", "VMCTL_RUN_DIR", "Sockets of the screens.")]
Network = Annotated[str, _from("--network", "VMCTL_NETWORK", "libvirt network of the machines.")]
LicenceToken = Annotated[
    Path, _place("--licence-token", "VMCTL_LICENCE_TOKEN", "NVIDIA's licence token for guests, root's alone.")
]
HostName = Annotated[str, _from("--host", "VMCTL_HOST", "This host's name at the portal.")]
Root = Annotated[Path, _place("--root", "VMCTL_ROOT", "Where the file system begins.")]
Layout = Annotated[str, _from("--simulate", "VMCTL_SIMULATE", "Simulate these GPUs below --root.")]
Version = Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the release.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where a bug happened.")]

# The verbs ----------------------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Document = Annotated[Path | None, typer.Option("--file", help="The desired state; standard input when left out.")]
Machine = Annotated[UUID, typer.Option("--machine", help="Whose screen.")]
Key = Annotated[serve.Key, typer.Argument(help="Which of the portal's keys stands before the command.")]
CardAddress = Annotated[str, typer.Option("--gpu", help="The card's PCI address, as vmctl gpus shows it.")]
Rounds = Annotated[int, typer.Option("--rounds", min=1, max=1000, help="How often.")]
ImageName = Annotated[str, typer.Option("--image", help="The guest's image; it tells its PCI functions.")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="Where the report goes as JSON, to be sent.")]


def read(file: Path | None) -> str:
    """The text of a document. Raises bad_input when it is not there, too long, or no UTF-8."""
    try:
        source = sys.stdin.buffer if file is None else file.open("rb")
        with source:
            text = source.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        raise bad_input(f"{file} cannot be read: {error.strerror}.", "Give a file that is there.") from error
    if len(text) > LARGEST_DOCUMENT:
        raise bad_input("The document has more than 32 MiB.", "Send one host's desired state.")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise bad_input(f"The document is no UTF-8 (byte {error.start}).", "Send JSON in UTF-8.") from error


def write(file: Path, text: str) -> None:
    """Write a report. Raises VmctlError when that cannot be."""
    try:
        file.write_text(text)
    except OSError as error:
        what = f"{file} cannot be written: {error.strerror}."
        raise VmctlError(Code.FAILED, what, "Give --report a place that can be written; the card was tried.") from error
