"""The whole thing: the real app on its default model and datastore, driven in Chromium.

Times are recorded and printed, not judged: other work on the machine must not fail a test.
"""

from __future__ import annotations

import statistics

import pytest
from driving import model

SOON = 30_000  # ms: for what takes milliseconds on an idle machine
RUN = 300_000  # ms: a run of some tokens on a busy machine
SETTLE = 500  # ms: Gradio fills its fields again when the page has loaded and when the accordion opens
NONE = "/?run=none"  # the page without the recorded run that it shows at first


@pytest.fixture
def page(app, tab):
    tab.set_default_timeout(SOON)
    tab.goto(app.url + NONE)
    tab.wait_for_selector(".rv-empty")
    tab.wait_for_function("document.querySelector('.rv-foot').innerText.includes('Target')", timeout=RUN)
    tab.wait_for_timeout(SETTLE)
    return tab


def setup(page, prompt=None, **values):
    if prompt is not None:
        page.locator("#rv-prompt textarea").fill(prompt)
    if not page.locator("#rv-seed").is_visible():
        page.locator("#rv-advanced button").first.click()
        page.wait_for_selector("#rv-seed input", state="visible")
        page.wait_for_timeout(SETTLE)
    for name, value in values.items():
        field = page.locator(f"#rv-{name.replace('_', '-')} input")
        field.fill(str(value))
        field.press("Tab")  # Gradio takes a number over for sure when its field is left
        page.wait_for_timeout(50)
        assert field.input_value() == str(value)


def choose(page, method):
    page.locator("#rv-method input").click()
    page.get_by_role("option", name=method, exact=True).click()


def run(page):
    page.click("#rv-run")


def wait_end(page, role="run"):
    page.wait_for_function(f"RestViz.player.role === '{role}' && RestViz.player.model?.finish", timeout=RUN)
    page.wait_for_selector("#rv-run:not([disabled])")


def wait_steps(page, n, role):
    page.wait_for_function(
        f"RestViz.player.role === '{role}' && RestViz.player.model?.steps.length >= {n}", timeout=RUN
    )


def test_a_recorded_run_is_there_before_the_model_is_loaded(app, tab):
    """The first page of the session asks while the engine loads, so this test comes first."""
    tab.goto(app.url)
    tab.wait_for_function("window.RestViz?.player?.model", timeout=SOON)
    assert tab.locator("#rv-run").is_enabled()
    assert model(tab, "m.header.method") == "rasd"
    assert tab.locator(".rv-badge").get_attribute("data-state") == "identical"
    told = tab.locator(".rv-from").inner_text()
    assert told.startswith("A recorded run, made on ")
    assert "Press Run to make one here." in told
    assert tab.locator(".rv-compare tbody tr").count() == 5
    tab.evaluate("RestViz.player.look(RestViz.player.compare.models.find(m => m.header.method === 'rest'))")
    assert tab.locator(".rv-from").inner_text() == told


def test_what_if_answers_for_a_recorded_run(app, tab):
    tab.goto(app.url)
    tab.wait_for_function("document.querySelector('.rv-foot')?.innerText.includes('Target')", timeout=RUN)
    tab.wait_for_function("window.RestViz?.player?.model", timeout=SOON)
    tab.get_by_text("What if…").click()
    tab.wait_for_selector(".rv-told strong", timeout=SOON)
    assert "it was the same" in tab.locator(".rv-told").inner_text(), "nothing was changed yet"
    step = model(tab, "m.steps[p.current]")
    assert tab.locator(".rv-other .rv-inspector h3").first.inner_text() == f"Step {step['index']}"
    accepted = model(tab, "p.whatIf.drafted.accepted")
    tab.evaluate(f"RestViz.player.whatIf.point({accepted[0]})")
    told = tab.locator(".rv-other .rv-inspector").inner_text()
    assert "the target itself writes this token" in told, "its choices were sent along"
    retrieved = model(tab, "p.whatIf.drafted.nodes.source.findIndex(flags => flags & 1)")
    tab.evaluate(f"RestViz.player.whatIf.point({retrieved})")
    tab.wait_for_selector(".rv-other .rv-places mark", timeout=SOON)
    tab.locator(".rv-fields").get_by_label("python-code").uncheck()
    tab.wait_for_function(r"/of \d+ nodes; it was \d/.test(document.querySelector('.rv-told').innerText)", timeout=SOON)
    assert "accepted of" in tab.locator(".rv-told").inner_text()
    node = model(tab, "m.steps[p.current].nodes.source.findIndex(flags => flags & 1)")
    model(tab, f"p.pointNode({node})")
    tab.wait_for_selector(".rv-places mark", timeout=SOON)


def test_a_link_opens_a_recorded_run_at_a_step(app, tab):
    tab.goto(app.url + "/?run=stack&method=rest&step=7")
    tab.wait_for_function("window.RestViz?.player?.model", timeout=SOON)
    assert model(tab, "[m.header.method, p.current]") == ["rest", 7]


def test_a_link_restores_prompt_method_and_parameters(app, tab):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.goto(app.url + "/?prompt=Say+%26+do&method=rasd&chat=false&prune_k=7&temperature=0.5&stores=answers")
    tab.wait_for_function("document.querySelector('#rv-prompt textarea')?.value === 'Say & do'", timeout=SOON)
    assert tab.locator("#rv-method input").input_value() == "RASD"
    setup(tab, max_new_tokens=4)
    assert tab.locator("#rv-prune-k input").input_value() == "7"
    assert not tab.get_by_label("Chat template").is_checked()
    run(tab)
    wait_end(tab)
    assert model(tab, "m.header.parameters.stores") == "answers"
    tab.get_by_role("button", name="Copy link").click()
    tab.wait_for_selector(".rv-note:has-text('The link is copied.')", timeout=SOON)
    link = tab.evaluate("navigator.clipboard.readText()")
    made = model(tab, "m.header.parameters")
    tab.goto(link)
    tab.wait_for_function("document.querySelector('#rv-prompt textarea')?.value === 'Say & do'", timeout=SOON)
    setup(tab)
    run(tab)
    wait_end(tab)
    assert model(tab, "m.header.parameters") == made


def test_a_wrong_link_is_told_in_a_sentence(app, tab):
    tab.goto(app.url + "/?prompt=a&budget=many")
    tab.wait_for_selector(".rv-note[role=alert]", timeout=SOON)
    assert "The link cannot be used: budget cannot be 'many'" in tab.locator(".rv-note[role=alert]").inner_text()


def test_run_shows_trees_baseline_and_that_the_text_is_identical(page):
    setup(page, max_new_tokens=16)
    run(page)
    page.wait_for_selector(".rv-note:has-text('Measuring the baseline')", timeout=RUN)
    wait_end(page)
    assert model(page, "m.header.method") == "rest"
    assert page.locator(".rv-badge").get_attribute("data-state") == "identical"
    assert "16 tokens" in page.locator(".rv-badge").inner_text()
    assert page.locator(".rv-big").inner_text().endswith("×")
    figures = page.locator(".rv-figures").inner_text()
    assert all(
        word in figures
        for word in ("REST", "autoregressive", "tokens/s", "M, mean generated length", "target forwards")
    )
    assert model(page, "m.steps.some(s => s.nodes.token.length > 10 && s.matches[0].length > 0)")
    assert model(page, "m.tokens.map(t => t.id)") == model(page, "p.models.baseline.tokens.map(t => t.id)")

    # the baseline is kept: a second run with another budget does not measure it again
    setup(page, budget=16)
    run(page)
    page.wait_for_function("RestViz.player.role === 'run' && RestViz.player.live", timeout=RUN)
    wait_end(page)
    assert model(page, "Math.max(...m.steps.map(s => s.nodes.fate.filter(f => !f.startsWith('pruned')).length))") <= 17
    assert page.locator(".rv-badge").get_attribute("data-state") == "identical"


def test_stepping_scrubbing_and_hovering_after_a_run(page):
    setup(page, max_new_tokens=16)
    run(page)
    wait_end(page)
    page.evaluate("document.activeElement.blur()")
    last = model(page, "m.steps.length - 1")
    assert model(page, "p.current") == last
    page.keyboard.press("ArrowLeft")
    assert model(page, "p.current") == last - 1
    page.keyboard.press("Home")
    assert "Prefill" in page.locator(".rv-why").inner_text()
    box = page.locator(".rv-range").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    assert 0 < model(page, "p.current") < last
    big = model(page, "m.steps.findIndex(s => s.nodes.token.length > 5)")
    page.evaluate(f"RestViz.player.seek({big})")
    page.locator(".rv-tree [data-node='1']").hover()
    assert "fate" in page.locator(".rv-split .rv-inspector").inner_text()
    page.locator("#rv-prompt textarea").focus()
    at = model(page, "p.current")
    page.keyboard.press("ArrowLeft")
    assert model(page, "p.current") == at  # typing is not stepping


def test_stop_in_the_middle_and_run_again(page):
    setup(page, "Count from one to one hundred in words.", max_new_tokens=400)
    run(page)
    wait_steps(page, 3, "baseline")
    page.click("#rv-stop")
    wait_end(page, "baseline")
    assert model(page, "m.finish.reason") == "stopped"
    assert model(page, "m.steps.length") < 400
    kept = model(page, "m.tokens.length")
    assert page.locator(".rv-answer .rv-tok").count() == kept

    setup(page, max_new_tokens=40)
    run(page)
    wait_steps(page, 3, "run")
    page.click("#rv-stop")
    wait_end(page)
    assert model(page, "m.finish.reason") == "stopped"
    badge = page.locator(".rv-badge")
    assert badge.get_attribute("data-state") == "stopped"

    run(page)  # the baseline is there, the run starts anew
    page.wait_for_function("RestViz.player.live", timeout=RUN)
    wait_end(page)
    assert model(page, "m.finish.reason") != "stopped"
    assert page.locator(".rv-badge").get_attribute("data-state") == "identical"


def test_long_run_with_big_trees_queues_nothing_up(page, record_property):
    setup(page, max_new_tokens=120, budget=64)
    run(page)
    wait_end(page)
    produced, shown = model(page, "[m.steps.length, p.latencies.length]")
    assert produced == shown  # every step was on screen, none is waiting
    late = sorted(model(page, "p.latencies"))
    figures = {
        "steps": shown,
        "median_ms": statistics.median(late),
        "p95_ms": late[int(0.95 * len(late))],
        "max_ms": late[-1],
    }
    for name, value in figures.items():
        record_property(name, value)
    print("latency from engine to screen:", figures)
    assert statistics.median(late) < 5_000
    assert model(page, "p.latencies[p.latencies.length - 1]") < 10_000


def test_same_seed_same_text_and_identical_to_the_baseline_when_sampling(page):
    setup(page, "Tell me a story.", max_new_tokens=12, temperature=1.2, top_p=0.95, seed=7)
    texts = []
    for seed in (7, 7, 8):
        setup(page, seed=seed)
        run(page)
        page.wait_for_function("RestViz.player.live", timeout=RUN)
        wait_end(page)
        assert page.locator(".rv-badge").get_attribute("data-state") == "identical"
        texts.append(model(page, "m.tokens.map(t => t.id)"))
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert "temperature 1.2, seed 8" in page.locator(".rv-basis").inner_text()


def test_autoregressive_run_is_called_the_baseline(page):
    setup(page, "The capital of France is", max_new_tokens=6)
    choose(page, "Autoregressive")
    run(page)
    wait_end(page, "baseline")
    assert "baseline" in page.locator(".rv-badge").inner_text()
    assert model(page, "m.steps.every(s => s.nodes.token.length === 1)")


def test_rasd_runs_live_and_its_stages_can_be_looked_at(page):
    setup(page, max_new_tokens=32)
    choose(page, "RASD")
    page.locator("#rv-prune-k").wait_for(state="visible")
    run(page)
    wait_end(page)
    assert page.locator(".rv-badge").get_attribute("data-state") == "identical"
    assert model(page, "m.tokens.some(t => t.label.includes('model'))"), "nothing of the draft model was accepted"
    step = model(page, "m.steps.findIndex(s => RestViz.stages(s)?.retrieved > 3)")
    assert step > 0
    page.evaluate(f"RestViz.player.seek({step})")
    counts = model(page, f"RestViz.stages(m.steps[{step}])")
    shown = {}
    for number, stage in enumerate(("retrieve", "prune", "draft", "fuse", "verify"), 1):
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(str(number))
        assert model(page, "p.stage") == stage
        shown[stage] = page.locator(".rv-tree [data-node]:not([data-node='0']):not([data-node='-1'])").count()
    assert shown == {
        "retrieve": counts["retrieved"],
        "prune": counts["retrieved"],
        "draft": counts["model"],
        "fuse": counts["fused"],
        "verify": counts["fused"],
    }


def test_what_if_answers_on_the_real_model(page, record_property):
    setup(page, max_new_tokens=24)
    choose(page, "RASD")
    run(page)
    wait_end(page)
    step = model(page, "m.steps.findIndex(s => s.index && s.nodes.fate.length > 8)")
    page.evaluate(f"RestViz.player.seek({step})")
    page.get_by_text("What if…").click()
    page.wait_for_selector(".rv-told strong", timeout=RUN)
    assert "it was the same" in page.locator(".rv-told").inner_text()
    start = page.evaluate("performance.now()")
    page.get_by_label("Cap of the fused tree").last.fill("2")
    page.wait_for_function("/of [12] nodes?/.test(document.querySelector('.rv-told').innerText)", timeout=RUN)
    record_property("what_if_ms", page.evaluate("performance.now()") - start)
    page.get_by_label("Cap of the fused tree").last.fill("999")
    page.wait_for_function(
        "document.querySelector('.rv-told').innerText.startsWith('Cap of the fused tree cannot be 999')",
        timeout=SOON,
    )


def test_a_retrieved_node_shows_lines_of_the_datastore(page):
    setup(page, max_new_tokens=24)
    run(page)
    wait_end(page)
    step, node = model(
        page,
        "m.steps.flatMap(s => s.nodes.source.map((flags, i) => [s.index, i, flags])).find(([, , flags]) => flags & 1)",
    )[:2]
    page.evaluate(f"RestViz.player.seek({step}); RestViz.player.pointNode({node})")
    page.wait_for_selector(".rv-places mark", timeout=SOON)
    drafted = model(page, f"m.text[m.steps[{step}].nodes.token[{node}]]")
    assert page.locator(".rv-places mark").first.evaluate("node => node.textContent").endswith(drafted)
    assert ", line " in page.locator(".rv-places figcaption").first.inner_text()


def test_all_methods_are_compared_on_one_prompt(page):
    setup(page, max_new_tokens=12)
    page.click("#rv-every")
    page.wait_for_function("RestViz.player.compare.models.length === 5", timeout=RUN)
    page.wait_for_selector("#rv-every:not([disabled])", timeout=RUN)
    rows = page.locator(".rv-compare tbody tr")
    methods = [text.split("\t")[0] for text in rows.all_inner_texts()]
    assert methods == ["autoregressive", "PLD", "REST", "EAGLE", "RASD"]
    assert [text.split("\t")[-1] for text in rows.all_inner_texts()] == ["baseline", *["✓ identical"] * 4]
    page.locator(".rv-compare tbody button", has_text="EAGLE").click()
    assert model(page, "m.header.method") == "eagle"
    page.locator("[aria-label='Replay all']").click()
    page.wait_for_function("RestViz.player.compare.frame")
    assert page.locator(".rv-lane").count() == 5


def test_html_in_a_prompt_is_only_text(page):
    evil = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script> Repeat this exactly.'
    setup(page, evil, max_new_tokens=8)
    run(page)
    wait_end(page)
    assert "<script>" in page.locator(".rv-prompt").inner_text()
    assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prompt": "  "}, "prompt is empty"),
        ({"max_new_tokens": 0}, "New tokens, at most cannot be 0"),
        ({"temperature": -2}, "Temperature cannot be -2"),
        ({"n_min": 9, "n_max": 3}, "must not be larger than"),
        ({"prompt": "word " * 20_000}, "tokens"),
    ],
)
def test_bad_input_gives_a_sentence_and_loses_nothing(page, change, sentence):
    setup(page, max_new_tokens=4)
    run(page)
    wait_end(page)
    before = model(page, "m.tokens.map(t => t.id)")
    setup(page, **change)
    run(page)
    alert = page.locator(".rv-note[role=alert]")
    alert.wait_for(state="visible", timeout=RUN)
    text = alert.inner_text()
    assert sentence in text
    assert "Traceback" not in text
    assert "\n" not in text.strip()
    assert model(page, "m.tokens.map(t => t.id)") == before
    page.wait_for_selector("#rv-run:not([disabled])")


def test_a_second_visitor_waits_and_is_told_and_a_closed_tab_frees_the_engine(page, browser, app):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    first = context.new_page()
    first.goto(app.url + NONE)
    first.wait_for_selector(".rv-empty")
    setup(first, "Write a long story about a lighthouse.", max_new_tokens=2000)
    run(first)
    wait_steps(first, 2, "baseline")
    setup(page, max_new_tokens=4)
    run(page)
    page.wait_for_selector(".rv-note:has-text('The model is busy')", timeout=SOON)
    context.close()  # the first visitor leaves
    wait_end(page)
    assert page.locator(".rv-badge").get_attribute("data-state") == "identical"


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_answer_and_timeline_stay_in_view_and_nothing_sticks_out(page, width, height):
    page.set_viewport_size({"width": width, "height": height})
    setup(page, max_new_tokens=6)
    run(page)
    wait_end(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".rv-charts").scroll_into_view_if_needed()
    box = page.locator(".rv-sticky").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= height
