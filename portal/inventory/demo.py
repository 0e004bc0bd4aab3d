"""What `make run` starts with: two simulated hosts, three flavors, the demo image."""

from portal.inventory.models import Flavor, Image, Regime

HOSTS = (("sim-t4", "t4"), ("sim-a40", "a40"))

# Small machines: they share one computer, and without KVM they are emulated
SIZE = {"regime": Regime.EQUAL, "vcpus": 1, "memory_mib": 256, "disk_gib": 4}


def flavors() -> list[Flavor]:
    """A quarter of a T4, a sixth and a half of an A40."""
    return [
        Flavor(slug="t4-quarter", name="T4, 4 GB", description="For courses.", vgpu_types=["T4-4Q", "T4-4C"], **SIZE),
        Flavor(
            slug="a40-sixth", name="A40, 8 GB", description="For exercises.", vgpu_types=["A40-8Q", "A40-8C"], **SIZE
        ),
        Flavor(
            slug="a40-half", name="A40, 24 GB", description="For training.", vgpu_types=["A40-24Q", "A40-24C"], **SIZE
        ),
    ]


def image() -> Image:
    """The image that set-up makes from Debian packages."""
    return Image(slug="demo", name="Demo (Debian)", file="demo", user="user", min_disk_gib=1)
