from django.apps import AppConfig


class ConsolesConfig(AppConfig):
    name = "portal.consoles"
    label = "consoles"

    def ready(self) -> None:
        """Listen to what lower apps tell."""
        from portal.consoles import receivers  # noqa: F401  models must be loaded first
