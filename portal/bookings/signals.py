"""What higher apps may want to hear about bookings."""

from django.dispatch import Signal

changed = Signal()  # host_ids: list[int]; sent on commit after any change that a host should learn of
