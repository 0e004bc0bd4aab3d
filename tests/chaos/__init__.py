"""What is killed, frozen or lost in the middle: real workers, a real libvirt, real QEMUs."""
