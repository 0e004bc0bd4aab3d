"""What higher apps may want to hear about people."""

from django.dispatch import Signal

deactivated = Signal()  # user, by, now: sent inside the transaction, so that what they held goes with them
