"""Entry point, also for Spaces: builds the page and launches it on HOST and PORT, nothing else.

RESTVIZ_MODEL names another model of restviz/ui/config.toml than the first; RESTVIZ_TARGET, RESTVIZ_HEAD and
RESTVIZ_ASSISTANT name models of one's own (see `restviz.load`).
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress

with suppress(ImportError):  # on ZeroGPU, and there before torch
    import spaces  # noqa: F401


def main() -> int:
    host = os.environ.get("HOST") or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    port = os.environ.get("PORT") or os.environ.get("GRADIO_SERVER_PORT") or "7860"
    if not port.isdigit() or not 0 < int(port) < 65536:
        print(f"PORT is {port!r}, which is not a port number (1 to 65535).", file=sys.stderr)
        return 1
    try:
        socket.getaddrinfo(host, None)  # before anything is loaded: is it an address, and is the port free?
        socket.create_server((host, int(port))).close()
        from restviz.errors import RestvizError
        from restviz.ui.page import launch

        try:
            launch(host, int(port))
        except RestvizError as error:
            print(error, file=sys.stderr)
            return 1
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            print(f"HOST is {host!r}, which is not an address of this machine.", file=sys.stderr)
        else:
            print(f"Port {port} on {host} cannot be used, probably it is taken: set PORT to another.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
