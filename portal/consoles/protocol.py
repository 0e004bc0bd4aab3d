"""uvicorn's WebSocket protocol, without its patience: `uvicorn --ws portal.consoles.protocol:Impatient`.

uvicorn (0.54) closes the line of a browser that answers no ping, but first waits for its buffer to drain. A browser
that has stopped reading never lets it, and console, child process and server would wait with it for ever.
"""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class Impatient(WebSocketsSansIOProtocol):
    """The same protocol; who answers no ping in time is cut off, and what was still to be sent is dropped."""

    def keepalive_timeout(self) -> None:
        """The pong did not come."""
        super().keepalive_timeout()
        self.transport.abort()
