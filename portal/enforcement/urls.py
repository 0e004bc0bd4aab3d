"""Addresses of enforcement."""

from django.urls import path

from portal.enforcement import views

app_name = "enforcement"
urlpatterns = [
    path("hosts", views.hosts, name="hosts"),
    path("hosts/<str:name>/call", views.call, name="call"),
    path("hosts/<str:name>/confirm", views.confirm, name="confirm"),
]
