"""What enforcement tells, once committed."""

from django.dispatch import Signal

wanted = Signal()  # host_ids: these hosts should be looked at soon
