"""Driving the real app in a real Chromium: what the tests and `shots.py` share."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from axe_playwright_python.sync_playwright import Axe
from bring import installed
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
STARTS_WITHIN = 600  # seconds: the first start downloads and converts the model and builds the datastore


def chromium(playwright) -> Browser:
    return playwright.chromium.launch(executable_path=installed(), args=list(FLAGS))


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class App:
    """The app in a subprocess, with more environment variables if any are given."""

    def __init__(self, log: Path, **more: str):
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.log = log
        env = os.environ | {"PORT": str(port)} | more
        self.began = time.monotonic()
        with log.open("w") as out:
            self.process = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=env, stdout=out, stderr=out)

    def wait(self) -> App:
        end = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < end:
            assert self.process.poll() is None, f"the app ended:\n{self.log.read_text()[-3000:]}"
            try:
                with urlopen(self.url + "/config", timeout=5) as answer:
                    json.load(answer)
                return self
            except (URLError, TimeoutError, ConnectionError):
                time.sleep(0.25)
        raise AssertionError(f"no page within {STARTS_WITHIN} s:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def model(page: Page, expression: str):
    """Evaluate with `p` the player and `m` its model on screen."""
    return page.evaluate(f"(() => {{ const p = RestViz.player, m = p.model; return {expression}; }})()")


def serious(page: Page, within: str = "body") -> list[str]:
    """What axe calls serious or critical."""
    found = Axe().run(page, context=within).response["violations"]
    return [
        f"{v['id']} ({v['impact']}): {v['help']}: {node['target']} {node['html'][:160]}"
        for v in found
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"][:3]
    ]
