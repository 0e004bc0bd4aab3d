"""Who did what, and when. Rows are only ever added; the database refuses anything else."""

from django.conf import settings
from django.db import models


class Entry(models.Model):
    """One deed: `actor` is empty where the portal acted by itself."""

    at = models.DateTimeField(db_index=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    verb = models.CharField(max_length=60)
    subject = models.CharField(max_length=120, db_index=True)  # "reservation:<id>"
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "entries"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.verb} {self.subject}"
