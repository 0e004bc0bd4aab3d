"""What is known of each host as a whole: the generation, who talks to it now, what it last answered, what it did."""

from django.db import models

from portal.inventory.models import Host


class HostState(models.Model):
    """One row per host. While `lease_until` lies ahead, somebody talks to the host; the row's generation is theirs.

    `confirmed` are machines whose early stop an operator has confirmed; they travel with every call until gone.
    """

    host = models.OneToOneField(Host, on_delete=models.CASCADE, primary_key=True, related_name="enforcement")
    generation = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    skipped = models.PositiveIntegerField(default=0)  # passes in a row that found the host busy
    last_call = models.DateTimeField(null=True, blank=True)
    last_success = models.DateTimeField(null=True, blank=True)
    last_error = models.JSONField(null=True, blank=True)  # {code, what, remedy, retry}; null: the last call worked
    report = models.JSONField(null=True, blank=True)  # the last good answer
    drift_seconds = models.FloatField(default=0)
    needs_confirmation = models.JSONField(default=list, blank=True)
    confirmed = models.JSONField(default=list, blank=True)

    def __str__(self) -> str:
        return f"{self.host} at generation {self.generation}"


class StepLog(models.Model):
    """One thing vmctl did on a host, or tried to; `error` as vmctl tells it."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="steps")
    at = models.DateTimeField()
    generation = models.BigIntegerField()
    kind = models.CharField(max_length=30)
    machine = models.UUIDField(null=True, blank=True)
    subject = models.TextField(blank=True)
    done = models.BooleanField()
    error = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["host", "at"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"
