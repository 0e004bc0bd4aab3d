"""Addresses of the portal."""

from django.contrib import admin
from django.urls import include, path

from portal import api, monitor

urlpatterns = [
    path("", include("portal.bookings.urls")),
    path("", include("portal.accounts.urls")),
    path("", include("portal.consoles.urls")),
    path("", include("portal.enforcement.urls")),
    path("", include("portal.notices.urls")),
    path("admin/", admin.site.urls),
    path("api/v1/", api.v1.urls),
    path("healthz", monitor.healthz),
    path("readyz", monitor.readyz),
]
