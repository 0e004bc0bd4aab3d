"""One machine on a host: its domain, its folder, its seed, its network; started and stopped."""
