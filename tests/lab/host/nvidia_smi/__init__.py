"""Stands in for nvidia-smi in the lab: answers from what the lab's kernel module shows, in the form of driver 570.

It stands alone: neither knows it of vmctl, nor vmctl of it.
"""
