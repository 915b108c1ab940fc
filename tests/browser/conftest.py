"""A real Chromium for the page's tests, and the real app in a process of its own.

Nothing here is skipped when a browser is missing: then these tests fail and say so.
"""

from __future__ import annotations

import pytest
from driving import App, chromium
from playwright.sync_api import sync_playwright

from restviz.ui.export import PLAYER, RUNS, SCRIPTS, template


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
