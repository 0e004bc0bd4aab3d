"""Who may have what, when. Loads the Celery application, so that tasks are sent to our broker from every process."""

from portal.celery import app as celery_app

__all__ = ["celery_app"]
