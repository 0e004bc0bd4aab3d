from django.apps import AppConfig


class EnforcementConfig(AppConfig):
    name = "portal.enforcement"
    label = "enforcement"

    def ready(self) -> None:
        """Listen to what lower apps tell."""
        from portal.enforcement import receivers  # noqa: F401  models must be loaded first
