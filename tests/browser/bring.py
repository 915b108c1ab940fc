"""Bring a Chromium for the page's tests where there is none: with apt where that is allowed, else Playwright's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def installed() -> str | None:
    """Path of a browser on this machine; None when there is only Playwright's, or none."""
    for path in filter(None, map(shutil.which, NAMES)):
        # a distribution may put a stub of that name there that only says how to install the browser
        if subprocess.run([path, "--version"], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0:
            return path
    return None


def playwrights() -> bool:
    """Whether Playwright's own Chromium is there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path).exists()


def main() -> int:
    if installed() or playwrights():
        return 0
    print("no Chromium found: bringing one for the page's tests", file=sys.stderr)
    if shutil.which("apt-get") and os.geteuid() == 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", "chromium"]):
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        if installed():
            return 0
    done = subprocess.run([sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"])
    if done.returncode:
        done = subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"])
    if done.returncode:
        print("No Chromium could be brought: install one (package chromium) and run this again.", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
