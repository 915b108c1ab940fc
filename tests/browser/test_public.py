"""The page as a Hugging Face Space serves it: public, on a stand-in for ZeroGPU (tests/zero), without a network."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest
from driving import App, model

import restviz

ZERO = str(Path(__file__).parents[1] / "zero")
NOWHERE = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
SPACE = {"SPACE_ID": "someone/restviz", "NO_PROXY": "127.0.0.1,localhost", **NOWHERE}
SOON = 30_000
RUN = 300_000  # ms: the model may have to be loaded first
DONE = "RestViz.player?.models.run?.finish && !RestViz.player.live"


@pytest.fixture(scope="module")
def cached():
    """The cache is filled, as a Space's is after its first start."""
    restviz.load()


@pytest.fixture
def space(request, cached, tmp_path):
    """A page with the environment variables that a test names."""
    app = App(tmp_path / "log.txt", **SPACE, **getattr(request, "param", {})).wait()
    yield app
    app.stop()
    assert "Traceback" not in app.log.read_text(), app.log.read_text()[-3000:]


def zero(**more):
    path = os.pathsep.join(filter(None, [ZERO, os.environ.get("PYTHONPATH")]))
    return {"SPACES_ZERO_GPU": "true", "PYTHONPATH": path, **more}


def opened(space, tab, **form):
    """The page with its form filled in by a link."""
    tab.set_default_timeout(SOON)
    tab.goto(f"{space.url}/?{urlencode(form)}")
    tab.wait_for_selector("#rv-run")
    return tab


def test_a_public_page_keeps_to_its_limits(space, tab):
    page = opened(space, tab, prompt="x" * 6001)
    page.click("#rv-run")
    page.wait_for_selector(".rv-note[role=alert]:has-text('6,001 characters and this public page takes 6,000')")
    page.locator("#rv-advanced button").first.click()
    assert not page.locator("#rv-model").is_visible(), "there is one model to choose from"
    page.locator("#rv-max-new-tokens input").fill("600")
    page.keyboard.press("Tab")
    page.locator("#rv-prompt textarea").fill("x")
    page.click("#rv-run")
    page.wait_for_selector(".rv-note[role=alert]:has-text('600 new tokens are more than the 512')")


@pytest.mark.parametrize("space", [zero()], indirect=True)
def test_a_run_on_zero_gpu_is_measured_and_asked_about(space, tab):
    page = opened(space, tab, prompt="Write a Python class Stack that uses a list. Only code.", max_new_tokens=24)
    page.click("#rv-run")
    page.wait_for_function(DONE, timeout=RUN)
    assert model(page, "m.tokens.length") == 24
    assert model(page, "m.header.environment.bit_exact") is True, "measured in the call"
    assert page.locator(".rv-verdict").inner_text().count("Identical") == 1
    page.get_by_text("What if…").click()
    page.wait_for_selector(".rv-told strong", timeout=RUN)


@pytest.mark.parametrize("space", [zero(SPACES_FAKE_YIELDS="20")], indirect=True)
def test_when_the_gpu_is_taken_away_the_page_says_so_and_stays_usable(space, tab):
    page = opened(space, tab, prompt="Write a Python class Stack that uses a list. Only code.", max_new_tokens=64)
    page.locator("#rv-advanced button").first.click()
    page.click("#rv-run")
    page.wait_for_selector(".rv-note[role=alert]:has-text('GPU task aborted')", timeout=RUN)
    assert model(page, "m.steps.length") == 19, "what was made until then stays"
    page.locator("#rv-max-new-tokens input").fill("4")
    page.keyboard.press("Tab")
    page.click("#rv-run")
    page.wait_for_function(DONE, timeout=RUN)
    page.get_by_role("tab", name="Learn").click()
    page.wait_for_function("window.RestViz?.learning?.player.model")


def test_the_page_and_its_model_are_there_without_a_network(space, tab):
    tab.goto(space.url)
    tab.wait_for_function("window.RestViz?.player?.model", timeout=RUN)
    print(f"first page after {time.monotonic() - space.began:.1f} s")  # 20 are asked for; time decides no test
    tab.wait_for_function("document.querySelector('.rv-foot')?.textContent.startsWith('Target')", timeout=RUN)
