"""Addresses of bookings."""

from django.urls import path

from portal.bookings import views

app_name = "bookings"
urlpatterns = [
    path("", views.calendar, name="calendar"),
    path("calendar/events", views.events, name="events"),
    path("calendar/resources", views.resources, name="resources"),
    path("book", views.book, name="book"),
    path("reservations/<uuid:reservation_id>", views.reservation, name="reservation"),
    path("reservations/<uuid:reservation_id>/cancel", views.cancel, name="cancel"),
    path("reservations/<uuid:reservation_id>/end", views.end, name="end"),
    path("reservations/<uuid:reservation_id>/reveal", views.reveal, name="reveal"),
]
