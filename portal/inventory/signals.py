"""What higher apps may want to hear about hosts."""

from django.dispatch import Signal

added = Signal()  # host_id: sent on commit; its GPUs are not known yet
changed = Signal()  # host_id: sent on commit after an operator edited the host or one of its GPUs
