"""Every line of reference/geometry.sql that says what it wants, asked of the real table."""

import re
from pathlib import Path

import pytest
from django.db import connection, transaction

GEOMETRY = (Path(__file__).parents[2] / "data" / "geometry.sql").read_text()

# The reference's own put(), writing into the portal's table; its whole numbers become uuids
PUT = """
create function pg_temp.put(r int, g int, k text, s text, c int4range, prof text, sl int4range, h int, grp text,
  h0 numeric, h1 numeric, me boolean default false, switch numeric default 0) returns text language plpgsql as $$
declare zero timestamptz := '2027-01-01'; hour interval := '1 hour';
  p tstzrange := tstzrange(zero + h0 * hour, zero + h1 * hour);
  q tstzrange := tstzrange(lower(p) - switch * hour, upper(p));
begin
  insert into bookings_placement(id, vgpu_type, held, reservation_id, gpu_id, regime, size_group, cell, cell_profile,
    slot, handle, media, iommu_group, period, guard)
  values (gen_random_uuid(), s, true, md5('r' || r)::uuid, md5('g' || g)::uuid, k, s, c, prof, sl, h, me, grp, p, q);
  return 'accepted';
exception when exclusion_violation or check_violation then
  return 'refused: ' || coalesce(nullif(substring(sqlerrm from '"([a-z_]+)"[^"]*$'), ''), sqlerrm);
end $$;
"""
SWAP = """
update bookings_placement set handle = 1 - handle,
  cell = case reservation_id when md5('r1')::uuid then '[1,2)'::int4range else '[0,1)'::int4range end
where reservation_id in (md5('r1')::uuid, md5('r2')::uuid)
"""


def wants() -> list[tuple[str, str, str]]:
    """(what, wanted answers, the call) of every `want` line, in the file's order."""
    lines = re.findall(r"^select '(.+?): want (.+?) -> ' \|\| (put.+);$", GEOMETRY, re.MULTILINE)
    assert len(lines) == GEOMETRY.count(": want ") - 1  # the last one is the swap below
    return lines


def verdicts(wanted: str, count: int) -> list[str]:
    """One verdict for each tile put; in a line with two tiles and one verdict, it is the second's."""
    words = wanted.split(", ")
    if wanted.endswith(" twice"):
        return ["accepted"] * count
    return words if len(words) == count else ["accepted"] * (count - 1) + words[-1:]


@pytest.mark.django_db
def test_the_table_accepts_and_refuses_what_the_reference_says() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(PUT)
        for what, wanted, calls in wants():
            cursor.execute(f"select {calls.replace('put(', 'pg_temp.put(')}")
            answers = cursor.fetchone()[0].split(", ")
            expected = verdicts(wanted, len(answers))
            for answer, want in zip(answers, expected, strict=True):
                kind, _, name = want.partition(" ")
                told = f"{what}: wanted {wanted}, got {answers}"
                assert answer.startswith(kind), told
                assert name in answer, told
        cursor.execute("set constraints all deferred")
        cursor.execute(SWAP)
        cursor.execute("set constraints one_regime, one_cell, one_slot, one_handle, one_group immediate")
        cursor.execute("select cell::text from bookings_placement where reservation_id = md5('r1')::uuid")
        assert cursor.fetchone()[0] == "[1,2)"
        transaction.set_rollback(True)  # nothing here has its reservation or GPU


@pytest.mark.django_db
@pytest.mark.parametrize("name", re.findall(r"constraint (\w+)\s+exclude", GEOMETRY))
def test_every_exclusion_of_the_reference_is_there_and_deferrable(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "select contype, condeferrable, condeferred, pg_get_constraintdef(oid) from pg_constraint"
            " where conname = %s",
            [name],
        )
        kind, deferrable, deferred, text = cursor.fetchone()
    assert (kind, deferrable, deferred) == ("x", True, False)
    wanted = re.search(rf"constraint {name}\s+exclude using gist \((.+?)\) where", GEOMETRY)
    assert wanted is not None
    for part in wanted.group(1).replace("reservation", "reservation_id").split(", "):
        column, operator = part.split(" with ")
        assert re.search(rf"\b{column}(_id)? WITH {re.escape(operator)}", text)
