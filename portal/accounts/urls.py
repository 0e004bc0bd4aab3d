"""Addresses of accounts."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from portal.accounts import views

app_name = "accounts"
urlpatterns = [
    path("login", views.log_in, name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("profile", views.profile, name="profile"),
    path("profile/tokens", views.token_make, name="token_make"),
    path("profile/tokens/<int:token_id>/revoke", views.token_revoke, name="token_revoke"),
]
