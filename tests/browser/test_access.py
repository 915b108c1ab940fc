"""For everyone: axe finds nothing serious, light and dark, at three widths; every control is reached by keyboard."""

from __future__ import annotations

import pytest
from driving import serious

SOON = 30_000
MINUTES = 300_000  # ms: the model may have to be loaded first
WIDTHS = {"desktop": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}


@pytest.fixture(params=WIDTHS)
def recorded(request, app, tab):
    width, height = WIDTHS[request.param]
    tab.set_viewport_size({"width": width, "height": height})
    tab.goto(app.url + "/?run=stack&method=rasd&step=4")
    tab.wait_for_function("window.RestViz?.player?.model && RestViz.player.charts.ready", timeout=SOON)
    return tab


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(recorded, theme):
    recorded.evaluate("dark => document.body.classList.toggle('dark', dark)", theme == "dark")
    recorded.wait_for_function("theme => document.querySelector('.rv').dataset.theme === theme", arg=theme)
    for name in ("Mask", "List"):
        recorded.get_by_role("button", name=name, exact=True).click()
    recorded.get_by_text("What if…").click()
    recorded.wait_for_selector(".rv-told strong", timeout=MINUTES)
    recorded.mouse.move(0, 0)  # what opened may have moved a node under it
    drafted = "RestViz.player.model.steps[4].nodes.source.findIndex(flags => flags & 1)"
    recorded.evaluate(f"RestViz.player.pointNode({drafted})")
    recorded.wait_for_selector(".rv-places mark", timeout=SOON)
    recorded.locator("#rv-advanced button").first.click()
    recorded.wait_for_selector("#rv-seed input", state="visible")
    recorded.wait_for_timeout(600)  # transitions of colour
    assert serious(recorded) == []
    for stage in ("retrieve", "prune", "draft", "fuse"):
        recorded.evaluate("stage => RestViz.player.show(stage)", stage)
        recorded.wait_for_timeout(600)
        assert serious(recorded, ".rv-middle") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_before_a_run_and_beside_an_error(app, tab, theme):
    tab.goto(app.url + "/?run=none")
    tab.wait_for_selector(".rv-empty", timeout=SOON)
    tab.evaluate("dark => document.body.classList.toggle('dark', dark)", theme == "dark")
    tab.wait_for_function("theme => document.querySelector('.rv').dataset.theme === theme", arg=theme)
    tab.wait_for_timeout(600)  # transitions of colour
    assert serious(tab) == []
    tab.locator("#rv-prompt textarea").fill(" ")
    tab.click("#rv-run")
    tab.wait_for_selector(".rv-note[role=alert]:has-text('prompt is empty')", timeout=MINUTES)
    tab.wait_for_timeout(600)
    assert serious(tab) == []


def test_nothing_is_wider_than_the_window(recorded):
    for name in ("Mask", "List"):
        recorded.get_by_role("button", name=name, exact=True).click()
    assert recorded.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    outside = recorded.evaluate(
        """[...document.querySelectorAll('.rv-main > *, .rv-keep, .rv-split > *')].filter(node => node.offsetParent
        && node.getBoundingClientRect().right > innerWidth + 1).map(node => node.className)"""
    )
    assert outside == []


def test_at_200_percent_zoom_everything_is_still_there(app, browser):
    """200 % zoom of a 1440 pixel window is a window of 720 CSS pixels at twice the density."""
    context = browser.new_context(viewport={"width": 720, "height": 450}, device_scale_factor=2)
    page = context.new_page()
    page.goto(app.url + "/?run=stack&method=rasd&step=4")
    page.wait_for_function("window.RestViz?.player?.model", timeout=SOON)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for name in ("Trace", "Copy link", "Mask", "List"):
        page.get_by_role("button", name=name, exact=True).scroll_into_view_if_needed()
        assert page.get_by_role("button", name=name, exact=True).is_visible()
    page.locator(".rv-split .rv-tree").scroll_into_view_if_needed()
    hidden = page.evaluate("document.querySelector('.rv-sticky').getBoundingClientRect().bottom")
    assert hidden <= page.locator(".rv-split .rv-tree").bounding_box()["y"], "the answer does not cover the tree"
    context.close()


def test_every_control_is_reached_by_tab(app, tab):
    tab.goto(app.url + "/?run=stack&method=rasd&step=4")
    tab.wait_for_function("window.RestViz?.player?.model", timeout=SOON)
    wanted = set(
        tab.evaluate(
            """[...document.querySelectorAll('.rv button:not(:disabled), .rv select, .rv input, .rv summary')]
            .filter(node => node.checkVisibility({ checkVisibilityCSS: true }) && node.tabIndex >= 0)
            .map((node, i) => { node.dataset.tab = i; return String(i); })"""
        )
    )
    assert len(wanted) > 30
    tab.locator(".rv-answer").focus()
    reached = set()
    for _ in range(len(wanted) + 20):
        tab.keyboard.press("Tab")
        at = tab.evaluate("document.activeElement.dataset.tab")
        if at is None and reached >= wanted:
            break
        reached.add(at)
    assert wanted - reached == set()


def test_with_reduced_motion_nothing_moves(app, browser):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(app.url + "/?run=stack&method=rasd&step=4")
    page.wait_for_function("window.RestViz?.player?.model", timeout=SOON)
    page.evaluate("RestViz.player.show('fuse')")
    moving = page.evaluate(
        "document.querySelector('.rv').getAnimations({ subtree: true }).filter(a => a.playState === 'running').length"
    )
    assert moving == 0
    context.close()
