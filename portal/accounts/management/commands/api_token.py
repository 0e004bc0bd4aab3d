"""manage.py api_token USER: a new API token; its text is the last line."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal import clock
from portal.accounts import actions
from portal.accounts.models import Scope, User
from portal.errors import Refused

LONGEST_LIFE = 3660  # days


class Command(BaseCommand):
    help = "Make an API token. Its text is printed as the last line and cannot be read again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--scopes", default=",".join(Scope.values), help="comma list, default: %(default)s")
        parser.add_argument("--days", type=int, help="its life, default: TOKEN_DAYS")
        parser.add_argument("--name", default="command line")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {options['user']}.")
        days = options["days"]
        if days is not None and not 1 <= days <= LONGEST_LIFE:
            raise CommandError(f"--days must be between 1 and {LONGEST_LIFE}.")
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        try:
            token, secret = actions.make_token(
                user, name=options["name"], scopes=scopes, days=days, by=None, now=clock.now()
            )
        except Refused as refused:
            raise CommandError(refused.detail) from refused
        self.stdout.write(
            f"Token of {user.username} for {', '.join(token.scopes)}, good until {token.expires:%Y-%m-%d}:"
        )
        self.stdout.write(secret)
