"""Makes it so, on one host: looks at a hypervisor, brings it to a desired state, checks it. No web in here."""

__version__ = "0.1.0"
