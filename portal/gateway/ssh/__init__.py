"""vmctl on another machine, over SSH: paramiko for the verbs, OpenSSH's client as a child for the bytes of screens.

Only our own keys and the pinned host key count: no agent, no password, nobody's ~/.ssh, no question without an answer.
"""

from portal.gateway.ssh.call import call
from portal.gateway.ssh.client import command, complaint, remote_words
from portal.gateway.ssh.lines import LINES

__all__ = ["LINES", "call", "command", "complaint", "remote_words"]
