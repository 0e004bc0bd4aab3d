"""Addresses of consoles."""

from django.urls import path

from portal.consoles import views

app_name = "consoles"
urlpatterns = [
    path("machines", views.machines, name="machines"),
    path("machines/<uuid:machine_id>/console", views.console, name="console"),
    path("machines/<uuid:machine_id>/ticket", views.ticket, name="ticket"),
]
