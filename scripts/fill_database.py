"""Migrations, then the demo data, in one process: Django takes as long to start as both to run.

    python -m scripts.fill_database        (with the portal's settings in the environment)

Prints the log-ins; what the migrations say goes to standard error.
"""

from __future__ import annotations

import os
import sys

import django
from django.core.management import call_command


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    call_command("migrate", interactive=False, stdout=sys.stderr)
    call_command("demo_data")


if __name__ == "__main__":
    main()
