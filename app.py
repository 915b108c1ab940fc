"""Entry point, also for Spaces: builds the page and launches it on HOST and PORT, nothing else.

RESTVIZ_TARGET, RESTVIZ_HEAD and RESTVIZ_ASSISTANT name other models than the default ones (see `restviz.load`).
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from functools import partial


def main() -> int:
    host = os.environ.get("HOST") or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    port = os.environ.get("PORT") or os.environ.get("GRADIO_SERVER_PORT") or "7860"
    if not port.isdigit() or not 0 < int(port) < 65536:
        print(f"PORT is {port!r}, which is not a port number (1 to 65535).", file=sys.stderr)
        return 1
    try:
        socket.getaddrinfo(host, None)  # before anything is loaded: is it an address, and is the port free?
        socket.create_server((host, int(port))).close()
        from restviz import load
        from restviz.ui.page import launch

        named = {name: os.environ.get(f"RESTVIZ_{name.upper()}") for name in ("target", "head", "assistant")}
        named = {name: value for name, value in named.items() if value}
        launch(host, int(port), partial(load, **named), assistant="assistant" in named)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            print(f"HOST is {host!r}, which is not an address of this machine.", file=sys.stderr)
        else:
            print(f"Port {port} on {host} cannot be used, probably it is taken: set PORT to another.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
