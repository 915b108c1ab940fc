"""Everything that can be done with a run, with the mouse and with keys: on the exported page of a real recorded run,
from disk and with the network off, at three widths, and on the player of the static folder."""

from __future__ import annotations

import pytest
from driving import serious

from restviz.trace import Trace
from restviz.ui.bundled import RUNS
from restviz.ui.export import export

MADE = 'RestViz.createPlayer(document.getElementById("player"))'
WIDTHS = {"desktop": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    runs = {path.name.split(".")[0]: Trace.load(path) for path in (RUNS / "stack").glob("*.json.gz")}
    page = export(runs.pop("rasd"), runs.pop("autoregressive"), runs.values())
    path = tmp_path_factory.mktemp("exported") / "run.html"
    path.write_text(page.replace(MADE, f"(window.p = {MADE})"), encoding="utf-8")
    return path


@pytest.fixture(params=[*WIDTHS, "static"])
def page(request, exported, site, tab):
    width, height = WIDTHS.get(request.param, WIDTHS["desktop"])
    tab.set_viewport_size({"width": width, "height": height})
    if request.param == "static":
        tab.goto(f"{site}/player.html?run=stack&method=rasd&step=0")
        tab.wait_for_function("window.p?.model")
    else:
        tab.context.set_offline(True)
        tab.goto(exported.as_uri())
    tab.wait_for_function("p.charts.ready")
    return tab


def at(page):
    return page.evaluate("p.current")


def test_with_the_mouse(page):
    press = lambda name: page.get_by_role("button", name=name, exact=True).click()  # noqa: E731
    press("Step forward")
    press("Step forward")
    assert at(page) == 2
    press("Step back")
    assert at(page) == 1
    press("Last step")
    assert at(page) == page.evaluate("p.model.steps.length") - 1
    press("First step")
    assert at(page) == 0
    page.get_by_label("Playback pace").select_option("0")
    press("Play")
    page.wait_for_function("p.current > 2")
    press("Pause")
    assert not page.evaluate("p.playing")

    track = page.locator(".rv-range").bounding_box()
    page.mouse.click(track["x"] + 0.5 * track["width"], track["y"] + 10)
    assert abs(at(page) - page.evaluate("p.model.steps.length") / 2) <= 1
    page.locator(".rv-step").nth(4).locator(".rv-tok").first.click()
    assert at(page) == 4

    for stage in ("Retrieve", "Prune", "Draft", "Fuse", "Verify"):
        page.locator(".rv-stage", has_text=f" {stage}").last.click()
        assert page.evaluate("RestViz.STAGES[p.stage].label") == stage
        assert page.locator(".rv-split .rv-tree [data-node]").count() > 1
    node = page.locator(".rv-split .rv-tree .n-accepted").first
    node.hover()
    assert page.locator(".rv-tok.hover").count() == 1
    assert "accepted" in page.locator(".rv-middle .rv-inspector dl").first.inner_text()

    press("Mask")
    page.locator(".rv-matrix .m-band").nth(2).hover()
    assert page.locator(".m-row.hover").count() == 1
    assert page.locator(".rv-mask figcaption").inner_text().startswith("Row 2")
    press("List")
    page.locator(".rv-list tbody tr").nth(1).hover()
    assert page.locator(".rv-list tr.hover").count() == 1
    before = page.locator(".rv-split .rv-tree [data-node]").count()
    page.get_by_label("fold chains").check()
    folded = page.locator(".rv-tree .folded")
    if folded.count():
        assert page.locator(".rv-split .rv-tree [data-node]").count() < before
        press("Fit the tree")
        folded.first.click(force=True)
        assert page.evaluate("p.tree.unfolded.size") == 1

    page.locator(".rv-compare tbody button", has_text="EAGLE").click()
    assert page.evaluate("p.model.header.method") == "eagle"
    press("Replay all")
    page.wait_for_function("p.compare.frame")
    press("Pause the replay")


def test_the_tree_is_moved_by_mouse_wheel_and_buttons(page):
    page.evaluate("p.seek(4)")
    page.locator(".rv-split .rv-tree").scroll_into_view_if_needed()
    box = page.locator(".rv-svg").first.bounding_box()
    view = lambda: page.evaluate("p.tree.view")  # noqa: E731
    start = view()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 70)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 40, box["y"] + box["height"] - 50, steps=4)
    page.mouse.up()
    assert view()["x"] - start["x"] == pytest.approx(40, abs=12)
    assert view()["k"] == start["k"]
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    page.wait_for_function("k => p.tree.view.k > k", arg=start["k"])
    near = view()["k"]
    page.get_by_role("button", name="Zoom out").first.click()
    assert view()["k"] < near
    page.get_by_role("button", name="Zoom in").first.click()
    assert view()["k"] == pytest.approx(near)
    page.get_by_role("button", name="Fit the tree").first.click()
    shape = page.evaluate("p.tree.shape")
    assert shape["width"] * view()["k"] <= box["width"] + 1


def test_two_fingers_zoom_the_tree(page):
    page.evaluate("p.seek(4)")
    before = page.evaluate("p.tree.view.k")
    page.evaluate(
        """() => {
        const svg = document.querySelector(".rv-svg"), { left, top } = svg.getBoundingClientRect();
        svg.setPointerCapture = () => {}; // these pointers are no real ones
        const send = (type, pointerId, x, y) => svg.dispatchEvent(new PointerEvent(type,
            { pointerId, pointerType: "touch", clientX: left + x, clientY: top + y, bubbles: true }));
        send("pointerdown", 1, 100, 100); send("pointerdown", 2, 140, 100);
        for (let x = 150; x <= 180; x += 10) send("pointermove", 2, x, 100);
        send("pointerup", 1, 100, 100); send("pointerup", 2, 180, 100);
    }"""
    )
    assert page.evaluate("p.tree.view.k") > 1.5 * before


def test_with_keys(page):
    press = page.keyboard.press
    for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        press(key)
        assert at(page) == step
    press("End")
    assert at(page) == page.evaluate("p.model.steps.length") - 1
    page.evaluate("p.seek(4)")
    for key, stage in enumerate(("retrieve", "prune", "draft", "fuse", "verify"), 1):
        press(str(key))
        assert page.evaluate("p.stage") == stage
    page.locator(".rv-svg").first.focus()
    press("ArrowDown")
    press("ArrowDown")
    assert page.locator(".rv-split .rv-tree .hover").count() == 1
    k = page.evaluate("p.tree.view.k")
    press("+")
    assert page.evaluate("p.tree.view.k") > k
    press("-")
    assert page.evaluate("p.tree.view.k") == pytest.approx(k)
    press("0")
    page.locator(".rv-answer").focus()
    press("ArrowDown")
    assert page.locator(".rv-tok.hover").count() == 1
    for name in ("Mask", "List"):
        page.get_by_role("button", name=name, exact=True).focus()
        press("Enter")
    page.locator(".rv-matrix").focus()
    press("ArrowDown")
    assert page.locator(".m-row.hover").count() == 1
    page.locator(".rv-list tbody button").nth(1).focus()
    assert page.locator(".rv-list tr.hover").count() == 1
    page.get_by_label("fold chains").focus()
    press("Space")
    assert page.evaluate("p.tree.folding")
    page.locator(".rv-range").focus()
    press("Home")
    press("ArrowRight")
    assert at(page) == 1
    page.locator(".rv-compare tbody button").nth(1).focus()
    press("Enter")
    assert page.evaluate("p.model.header.method") == page.evaluate("p.compare.models[1].header.method")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_exported_page(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => document.querySelector('.rv').dataset.theme === scheme", arg=scheme)
    page.evaluate("p.seek(4)")
    for name in ("Mask", "List"):
        page.get_by_role("button", name=name, exact=True).click()
    page.locator(".rv-split .rv-tree [data-node]").nth(1).hover()
    page.wait_for_timeout(600)  # transitions of colour
    assert serious(page) == []
