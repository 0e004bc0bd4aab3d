"""The demo image: a small bootable disk that shows what a machine's seed says, made from Debian packages."""
