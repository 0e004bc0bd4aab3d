#!/usr/bin/env python
"""Django's command line for the portal: migrate, add_host, demo_data, api_token, ..."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    execute_from_command_line(sys.argv)
