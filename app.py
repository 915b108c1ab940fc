"""Entry point, also for Spaces: builds the page and launches it on HOST and PORT, nothing else."""

from __future__ import annotations

import os
import socket
import sys


def main() -> int:
    host = os.environ.get("HOST") or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    port = os.environ.get("PORT") or os.environ.get("GRADIO_SERVER_PORT") or "7860"
    if not port.isdigit() or not 0 < int(port) < 65536:
        print(f"PORT is {port!r}, which is not a port number (1 to 65535).", file=sys.stderr)
        return 1
    try:
        socket.create_server((host, int(port))).close()  # before anything is loaded
        from restviz.ui.page import launch

        launch(host, int(port))
    except OSError:
        print(f"Port {port} on {host} cannot be used, probably it is taken: set PORT to another one.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
