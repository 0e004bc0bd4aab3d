from django.apps import AppConfig


class BookingsConfig(AppConfig):
    name = "portal.bookings"
    label = "bookings"
