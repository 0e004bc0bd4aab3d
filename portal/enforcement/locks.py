"""Who talks to a host. Two guards together: a session lock in PostgreSQL, which a killed worker gives back at once,
and a lease in the host's row, which a frozen worker (alive, its session open) loses by time."""

from django.db import connection

STATEMENT_LIMITS = "set local lock_timeout = '3s'; set local idle_in_transaction_session_timeout = '20s'"


def hold(host_id: int, generation: int) -> None:
    """Take the session lock of this generation. It stays until `let_go`, or until this connection dies."""
    _ask("select pg_advisory_lock(hashtextextended(%s, 0))", host_id, generation)


def let_go(host_id: int, generation: int) -> None:
    """Give the session lock back; on another connection than the one that took it, nothing happens."""
    _ask("select pg_advisory_unlock(hashtextextended(%s, 0))", host_id, generation)


def is_abandoned(host_id: int, generation: int) -> bool:
    """Is the connection that held this generation gone?"""
    if not _ask("select pg_try_advisory_lock(hashtextextended(%s, 0))", host_id, generation):
        return False
    let_go(host_id, generation)
    return True


def limit_transaction() -> None:
    """Inside a transaction: wait seconds for a row, and lose the transaction when frozen in the middle of it."""
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT_LIMITS)


def _ask(question: str, host_id: int, generation: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(question, [f"enforce:{host_id}:{generation}"])
        return bool(cursor.fetchone()[0])
