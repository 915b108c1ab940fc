"""Screenshots of the running app for the README and for looking at: `python tests/browser/shots.py [tokens]`.

Writes out/readme.png, out/desktop.png, out/desktop-dark.png, out/phone.png, out/first.png, out/compare.png,
out/views.png, out/charts.png, out/whatif.png and one picture for each stage of RASD.  Starts the real app and runs
the first example once in each view.
"""

from __future__ import annotations

import sys
from pathlib import Path

from driving import ROOT, App, chromium
from playwright.sync_api import Browser, Page, sync_playwright

OUT = ROOT / "out"
MINUTES = 10 * 60_000


def open_page(browser: Browser, url: str, width: int, height: int, dark: bool = False) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", device_scale_factor=2
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_function("document.querySelector('.rv-foot')?.innerText.includes('Target')", timeout=MINUTES)
    return page


def run(page: Page, tokens: str, method: str = "REST") -> None:
    """Run the example and stop on the step that accepted most."""
    page.locator("#rv-method input").click()
    page.get_by_role("option", name=method, exact=True).click()
    page.locator("#rv-advanced button").first.click()
    page.locator("#rv-max-new-tokens input").fill(tokens)
    page.locator("#rv-advanced button").first.click()
    page.click("#rv-run")
    made = "RestViz.player.role === 'run' && RestViz.player.model?.finish && !RestViz.player.model.from"
    page.wait_for_function(made, timeout=MINUTES)
    page.evaluate("""() => {
        const { player } = RestViz, worth = (s) => 100 * s.accepted.length + s.nodes.token.length;
        player.seek(player.model.steps.reduce((best, s) => (worth(s) > worth(best) ? s : best)).index);
    }""")
    page.wait_for_timeout(2000)


def main(tokens: str) -> None:
    OUT.mkdir(exist_ok=True)
    app = App(OUT / "app.log").wait()
    try:
        with sync_playwright() as playwright:
            browser = chromium(playwright)
            page = open_page(browser, app.url, 1440, 900)
            page.screenshot(path=OUT / "first.png")
            run(page, tokens)
            page.screenshot(path=OUT / "desktop.png")
            page.set_viewport_size({"width": 1440, "height": 1180})
            page.wait_for_timeout(1500)
            page.screenshot(path=OUT / "readme.png")
            page.click("#rv-every")
            page.wait_for_selector("#rv-every[disabled]")
            page.wait_for_selector("#rv-every:not([disabled])", timeout=MINUTES)
            page.locator(".rv-compare").screenshot(path=OUT / "compare.png")
            page.evaluate("""() => {
                const { player, stages } = RestViz, worth = (s) => (stages(s)?.shared + stages(s)?.accepted) || 0;
                player.seek(player.model.steps.reduce((best, s) => (worth(s) > worth(best) ? s : best)).index);
            }""")
            page.add_style_tag(content=".rv-sticky { position: static !important; }")  # it would cover the tree
            for stage in ("retrieve", "prune", "draft", "fuse", "verify"):
                page.evaluate(f"RestViz.player.show('{stage}')")
                page.wait_for_timeout(700)
                page.locator(".rv-middle").screenshot(path=OUT / f"stage-{stage}.png")
            for name in ("Mask", "List"):
                page.get_by_role("button", name=name, exact=True).click()
            page.evaluate("RestViz.player.pointNode(3)")
            page.locator(".rv-middle").screenshot(path=OUT / "views.png")
            page.locator("[data-chart=costs]").scroll_into_view_if_needed()
            page.wait_for_timeout(1000)
            page.locator(".rv-charts").screenshot(path=OUT / "charts.png")
            page.get_by_text("What if…").click()
            page.get_by_role("button", name="Sweep", exact=True).click()
            page.wait_for_selector("button:text-is('Sweep'):not([disabled])", timeout=MINUTES)
            page.wait_for_timeout(1000)
            page.locator(".rv-whatif").screenshot(path=OUT / "whatif.png")
            for name, width, height, dark in (("desktop-dark", 1440, 900, True), ("phone", 390, 844, False)):
                page = open_page(browser, app.url, width, height, dark)
                run(page, tokens)
                if name == "phone":
                    page.locator(".rv-sticky").evaluate("node => node.scrollIntoView()")
                page.screenshot(path=OUT / f"{name}.png")
            browser.close()
    finally:
        app.stop()
    print(*sorted(str(path.relative_to(ROOT)) for path in Path(OUT).glob("*.png")), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "96")
