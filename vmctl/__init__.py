"""Makes it so, on one host: looks at a hypervisor, brings it to a desired state, checks it.  Knows nothing of the web."""

__version__ = "0.1.0"
