"""A machine whose kernel interface and GPU driver are simulated on a folder; nothing else in vmctl knows about it."""

from vmctl.simulate.host import SimulatedHost, prepare, reboot, reload_driver

__all__ = ["SimulatedHost", "prepare", "reboot", "reload_driver"]
