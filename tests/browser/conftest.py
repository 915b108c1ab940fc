"""A real Chromium for the page's tests, and the real app in a process of its own.

Nothing here is skipped when a browser is missing: then these tests fail and say so.
"""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from driving import App, chromium
from playwright.sync_api import sync_playwright

from restviz.ui.export import PLAYER, RUNS, SCRIPTS, template
from restviz.ui.site import write_site


@pytest.fixture(scope="package")  # not longer: the model's tests want both cores
def browser():
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def app(tmp_path_factory):
    app = App(tmp_path_factory.mktemp("app") / "log.txt").wait()
    yield app
    app.stop()
    assert "Traceback" not in app.log.read_text(), app.log.read_text()[-3000:]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="package")
def site(tmp_path_factory):
    """The address of the folder that `make static` writes; its player is `p` there."""
    folder = tmp_path_factory.mktemp("site")
    write_site(folder)
    (folder / "favicon.ico").write_bytes(b"")
    script = folder / "player" / "recorded.js"
    script.write_text(
        script.read_text().replace("= RestViz.createPlayer(host", "= globalThis.p = RestViz.createPlayer(host")
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def tab(browser):
    """A page that fails the test when its console has errors or it asks anything outside this machine."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: message.type == "error" and problems.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))
    page.on("request", lambda request: _inside(request.url) or problems.append(f"outside request: {request.url}"))
    yield page
    context.close()
    assert problems == []


@pytest.fixture
def player(request, tab, tmp_path):
    """The player on its own, without Gradio and without a server, as `p`: inlined into a page, or (as parameter
    "exported") the page that `trace export` writes, from disk and with the network off."""
    if getattr(request, "param", "inlined") == "exported":
        page = template().replace(RUNS, "").replace('"player"', '"host"')
        (tmp_path / "run.html").write_text(
            page.replace("RestViz.createPlayer(doc", "window.p = RestViz.createPlayer(doc")
        )
        tab.context.set_offline(True)
        tab.goto((tmp_path / "run.html").as_uri())
        return tab
    tab.set_content("<!doctype html><div id=host></div>")
    tab.add_style_tag(content=(PLAYER / "player.css").read_text())
    for name in SCRIPTS:
        tab.add_script_tag(content=(PLAYER / name).read_text())
    tab.evaluate("window.p = RestViz.createPlayer(document.getElementById('host'))")
    return tab


def _inside(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:", "file:"))
