"""Django in the benchmarks' own process, on a database of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.journeys.portal import drop_database, new_database


@contextmanager
def django() -> Iterator[None]:
    """Set up and migrated; dropped at the end."""
    first = os.environ["DATABASE_URL"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "portal.settings", "SECRET_KEY": "x" * 50, "LOG_LEVEL": "ERROR"}
        os.environ |= {"DATABASE_URL": new_database(first), "VAR_DIR": folder}
        import django as library
        from django.core.management import call_command
        from django.db import connections

        library.setup()
        call_command("migrate", verbosity=0, interactive=False)
        try:
            yield
        finally:
            connections.close_all()
            drop_database(os.environ["DATABASE_URL"], first)
