"""manage.py demo_data: once, hosts, flavors, people; prints the log-ins."""

import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from portal import clock
from portal.accounts import actions as accounts
from portal.accounts.models import User
from portal.gateway import GatewayError
from portal.inventory import actions, demo, discovery
from portal.inventory.models import Flavor, Host, HostKind, Image

OPERATOR, TEACHER, STUDENTS = "admin", "teacher", ("student1", "student2")
PROJECT = "demo"


class Command(BaseCommand):
    help = "Make the demo data that is missing, and print the log-ins."

    def handle(self, *args: Any, **options: Any) -> None:
        if not User.objects.filter(username=OPERATOR).exists():
            self._people()
        for flavor in demo.flavors():
            if not Flavor.objects.filter(slug=flavor.slug).exists():
                actions.save_choice(flavor, by=None, now=clock.now())
        self._image()
        for name, layout in demo.HOSTS:
            if not Host.objects.filter(name=name).exists():
                self._host(name, layout)
        file = _log_ins()
        if file.exists():
            self.stdout.write(file.read_text())

    @transaction.atomic
    def _people(self) -> None:
        """People and their project; the file is written before the commit, so that no log-in is lost."""
        now = clock.now()
        words = {name: secrets.token_urlsafe(9) for name in (OPERATOR, TEACHER, *STUDENTS)}
        people = {
            name: accounts.make_user(name, word, by=None, now=now, operator=name == OPERATOR)
            for name, word in words.items()
        }
        members = [people[name] for name in STUDENTS]
        accounts.make_project(PROJECT, members, managers=[people[TEACHER], people[OPERATOR]], by=None, now=now)
        _keep(_log_ins(), _table(words))

    def _image(self) -> None:
        """Where set-up has made the demo image, it can be booked."""
        image = demo.image()
        made = (Path(settings.IMAGES_DIR) / f"{image.file}.qcow2").exists()
        if made and not Image.objects.filter(slug=image.slug).exists():
            actions.save_choice(image, by=None, now=clock.now())

    def _host(self, name: str, layout: str) -> None:
        """A host that does not answer yet is looked at again by the next tick."""
        host = actions.add_host(name, HostKind.SIMULATED, layout=layout, by=None, now=clock.now())
        try:
            discovery.look(host, now=clock.now())
        except GatewayError as error:
            self.stderr.write(f"{name} did not answer: {error.what} {error.remedy}")


def _log_ins() -> Path:
    return Path(settings.VAR_DIR) / "demo-logins.txt"


def _table(words: dict[str, str]) -> str:
    rows = [("log-in", "password", "role"), *((name, word, _role(name)) for name, word in words.items())]
    return "".join(f"{name:<10} {word:<14} {role}\n" for name, word, role in rows)


def _role(name: str) -> str:
    return {OPERATOR: "operator", TEACHER: f"manager of {PROJECT}"}.get(name, f"member of {PROJECT}")


def _keep(file: Path, text: str) -> None:
    """For nobody's eyes but the service's own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
