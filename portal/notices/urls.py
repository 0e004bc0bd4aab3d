"""Addresses of notices."""

from django.urls import path

from portal.notices import views

app_name = "notices"
urlpatterns = [
    path("notices", views.notices, name="list"),
    path("notices/menu", views.menu, name="menu"),
    path("notices/read", views.read, name="read"),
]
