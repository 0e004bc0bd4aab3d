"""Against a real libvirt and a real QEMU (LIBVIRT_URI), through the command line."""
