"""One clock decides: the database's. Web processes and workers on several machines then agree."""

from datetime import datetime

from django.db import connection


def now() -> datetime:
    """The moment this is asked (not the start of the transaction), with its offset."""
    with connection.cursor() as cursor:
        cursor.execute("select clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
