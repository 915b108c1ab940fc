"""What needs the server, by mouse and by key, at three widths: run, stop, compare, what if, sweep, keep, open, link."""

from __future__ import annotations

import pytest
from driving import model

from restviz.trace import Trace

SOON = 30_000
RUN = 300_000
WIDTHS = {"desktop": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}
RECORDED = "/?run=stack&method=rest&step=5"


class Hand:
    """Uses controls with the mouse, or with keys alone."""

    def __init__(self, page, keys: bool):
        self.page, self.keys = page, keys

    def press(self, control, key="Enter"):
        if self.keys:
            control.focus()
            self.page.keyboard.press(key)
        else:
            control.click()

    def write(self, field, text):
        if self.keys:
            field.focus()
        else:
            field.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Tab")

    def button(self, name):
        self.press(self.page.get_by_role("button", name=name, exact=True))


@pytest.fixture(params=[(width, by) for width in WIDTHS for by in ("mouse", "keys")], ids="-".join)
def hand(request, app, tab):
    width, by = request.param
    tab.set_default_timeout(SOON)
    tab.set_viewport_size(dict(zip(("width", "height"), WIDTHS[width], strict=True)))
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.goto(app.url + RECORDED)
    tab.wait_for_function("document.querySelector('.rv-foot')?.innerText.includes('Target')", timeout=RUN)
    tab.wait_for_function("window.RestViz?.player?.model && RestViz.player.charts.ready")
    tab.wait_for_timeout(500)  # Gradio fills its fields again when the page has loaded
    return Hand(tab, by == "keys")


def test_what_if_and_a_sweep(hand):
    page = hand.page
    hand.press(page.locator(".rv-whatif summary"))
    page.wait_for_selector(".rv-told strong")
    hand.write(page.locator(".rv-fields").get_by_label("Node budget"), "3")
    page.wait_for_function("/of [123] nodes?; it was/.test(document.querySelector('.rv-told').innerText)")
    hand.press(page.locator(".rv-fields").get_by_label("python-code"), "Space")
    page.wait_for_function("RestViz.player.whatIf.changes.stores === 'answers'")
    hand.press(page.locator(".rv-sweep button"))
    page.wait_for_selector(".rv-sweep button:text-is('Sweep'):not([disabled])", timeout=RUN)
    assert model(page, "p.whatIf.curve.data[0].x.length") > 8
    assert "M is " in page.locator(".rv-whatif").inner_text()


def test_keep_open_and_link(hand, tmp_path):
    page = hand.page
    for name, ending in (
        ("Trace", ".json.gz"),
        ("Steps as CSV", ".csv"),
        ("Tree as SVG", ".svg"),
        ("Tree as PNG", ".png"),
        ("Web page", ".html"),
    ):
        with page.expect_download() as download:
            hand.button(name)
        assert download.value.suggested_filename.endswith(ending)
        download.value.save_as(tmp_path / f"kept{ending}")
    hand.button("Copy link")
    page.wait_for_selector(".rv-note:has-text('The link is copied.')")
    assert page.evaluate("navigator.clipboard.readText()").endswith(RECORDED)
    with page.expect_file_chooser() as chooser:
        hand.button("Open a trace…")
    chooser.value.set_files(tmp_path / "kept.json.gz")
    page.wait_for_function("RestViz.player.model.from === 'Opened from kept.json.gz.'")
    assert model(page, "m.tokens.map(token => token.id)") == Trace.load(tmp_path / "kept.json.gz").tokens


def test_run_stop_and_compare(hand):
    page = hand.page
    hand.write(page.locator("#rv-prompt textarea"), "Count from one to one hundred in words.")
    hand.press(page.locator("#rv-advanced button").first)
    page.wait_for_selector("#rv-seed input", state="visible")
    page.wait_for_timeout(500)
    length = page.locator("#rv-max-new-tokens input")
    hand.write(length, "400")
    hand.press(page.locator("#rv-run"))
    page.wait_for_function("RestViz.player.live && RestViz.player.model.steps.length > 2", timeout=RUN)
    hand.press(page.locator("#rv-stop"))
    page.wait_for_function("RestViz.player.model.finish?.reason === 'stopped'", timeout=RUN)
    page.wait_for_selector("#rv-run:not([disabled])")

    hand.write(length, "8")
    if hand.keys:
        page.locator("#rv-method input").focus()
        page.wait_for_timeout(200)  # it opens and makes the chosen option the active one
        page.keyboard.press("ArrowUp")
        page.locator("#rv-method li.active", has_text="PLD").wait_for()
        page.keyboard.press("Enter")
    else:
        page.locator("#rv-method input").click()
        page.get_by_role("option", name="Prompt lookup (PLD)", exact=True).click()
    page.wait_for_function("document.querySelector('#rv-method input').value === 'Prompt lookup (PLD)'")
    hand.press(page.locator("#rv-run"))
    page.wait_for_function(
        "RestViz.player.role === 'run' && RestViz.player.model?.finish && !RestViz.player.model.from", timeout=RUN
    )
    assert model(page, "m.header.method") == "pld"
    assert page.locator(".rv-badge").get_attribute("data-state") == "identical"
    page.wait_for_selector("#rv-run:not([disabled])")

    for name in ("REST", "EAGLE", "RASD"):
        hand.press(page.locator("#rv-compared").get_by_label(name), "Space")
    hand.press(page.locator("#rv-every"))
    page.wait_for_selector("#rv-every[disabled]")
    page.wait_for_selector("#rv-every:not([disabled])", timeout=RUN)
    rows = page.locator(".rv-compare tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["autoregressive", "PLD"]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("hand", [(width, "mouse") for width in WIDTHS], ids=WIDTHS, indirect=True)
def test_a_click_on_a_chart_goes_to_its_step(hand):
    page = hand.page
    page.locator("[data-chart=tokens]").scroll_into_view_if_needed()
    page.wait_for_function("RestViz.player.charts.drawn?.tokens > 10")
    page.locator("[data-chart=tokens] .point path").nth(10).click(force=True)
    page.wait_for_function("RestViz.player.current === 10")
