"""A GPU host without a GPU: a machine whose kernel, libvirt, sshd and devices are real; only the cards are dressed."""
