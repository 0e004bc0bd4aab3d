"""What people are told on their pages."""

from django.conf import settings
from django.db import models


class Level(models.TextChoices):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Notice(models.Model):
    """One sentence for one person; unread until `read` is set."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices")
    text = models.TextField()
    url = models.CharField(max_length=200, blank=True)
    level = models.CharField(max_length=10, choices=Level.choices, default=Level.INFO)
    created = models.DateTimeField()
    read = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["user", "read"])]

    def __str__(self) -> str:
        return self.text
