"""The entry point's own business: its port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_app(port: str, host: str = "127.0.0.1") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=os.environ | {"PORT": port, "HOST": host},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_taken_port_gives_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_app(port)
    assert done.returncode == 1
    expected = f"Port {port} on 127.0.0.1 cannot be used, probably it is taken: set PORT to another."
    assert done.stderr.strip() == expected


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_wrong_host_gives_one_sentence(host):
    done = run_app("7999", host)
    assert done.returncode == 1
    assert done.stderr.strip() == f"HOST is {host!r}, which is not an address of this machine."


@pytest.mark.parametrize("port", ["http", "0", "70000"])
def test_a_wrong_port_gives_one_sentence(port):
    done = run_app(port)
    assert done.returncode == 1
    assert done.stderr.strip() == f"PORT is {port!r}, which is not a port number (1 to 65535)."
