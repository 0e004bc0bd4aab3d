from django.db import migrations

# TRUNCATE stays possible: it needs ownership of the table, and whoever has that can drop the trigger as well.
FORWARD = """
create function audit_entry_refuse() returns trigger language plpgsql as $$
begin
  raise exception 'audit entries are never changed or removed' using errcode = 'restrict_violation';
end $$;
create trigger audit_entry_append_only before update or delete on audit_entry
  for each row execute function audit_entry_refuse();
"""
BACKWARD = """
drop trigger audit_entry_append_only on audit_entry;
drop function audit_entry_refuse();
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
