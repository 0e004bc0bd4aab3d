"""Tickets for consoles."""

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest
from ninja import Router, Schema

from portal import clock
from portal.accounts.access import Access, caller, token_used
from portal.accounts.models import Scope
from portal.consoles import actions
from portal.consoles.socket import CONSOLE_PATH
from portal.errors import NotVisible
from portal.machines.models import VirtualMachine

router = Router(auth=Access(Scope.CONSOLE), tags=["consoles"])


class TicketOut(Schema):
    """The ticket is the first text frame on the socket at `path`; it opens it once."""

    ticket: str
    path: str
    expires: datetime


@router.post("/machines/{uuid:machine_id}/console", response=TicketOut)
def console(request: HttpRequest, machine_id: UUID) -> TicketOut:
    """A ticket for the screen of a running machine."""
    machine = VirtualMachine.objects.filter(pk=machine_id).first()
    if machine is None:
        raise NotVisible("There is no such machine.")
    token = token_used(request)
    session = "" if token else request.session.session_key or ""
    issued = actions.issue(machine, to=caller(request), session_key=session, token=token, now=clock.now())
    return TicketOut(ticket=issued.secret, path=CONSOLE_PATH, expires=issued.expires)
