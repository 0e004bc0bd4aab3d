"""What only the GPU driver can tell: NVML in a child process, and nvidia-smi read by label."""
