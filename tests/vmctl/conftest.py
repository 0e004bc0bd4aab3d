"""Hypothesis without a clock: these tests share a machine with emulated guests."""

from hypothesis import settings

settings.register_profile("shared", deadline=None, max_examples=40)
settings.load_profile("shared")
