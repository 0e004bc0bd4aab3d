from django.apps import AppConfig


class BookingsConfig(AppConfig):
    name = "portal.bookings"
    label = "bookings"

    def ready(self) -> None:
        from portal.bookings import receivers  # noqa: F401  (registers them once the apps are loaded)
