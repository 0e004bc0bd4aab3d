"""The real web server, with a stand-in for vmctl: python -m tests.portal.consoles.server PORT SCRIPT"""

import sys

import uvicorn

from portal.gateway import child

PING_SECONDS = 4


def main() -> None:
    """Serve until killed; the flags are those of the stack, but for the shorter pings."""
    port, script = sys.argv[1:]
    child.PROGRAM = (sys.executable, script)
    uvicorn.run(
        "portal.asgi:application",
        host="127.0.0.1",
        port=int(port),
        ws="portal.consoles.protocol:Impatient",
        ws_per_message_deflate=False,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_max_size=1024 * 1024,
    )


if __name__ == "__main__":
    main()
