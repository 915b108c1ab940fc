"""The player on its own, inlined into one page without Gradio and without a server, as an export would be."""

from __future__ import annotations

import pytest
from made import baseline_trace, rasd_trace, rest_trace

from restviz.trace import Check, Match, Times
from restviz.ui.export import PLOTLY

pytestmark = pytest.mark.parametrize("player", ["inlined", "exported"], indirect=True)


@pytest.fixture
def loaded(player):
    trace = rest_trace()
    load(player, trace, baseline_trace(trace.tokens))
    return player


def load(page, trace, baseline=None):
    data = [trace.model_dump(mode="json"), baseline and baseline.model_dump(mode="json")]
    page.evaluate("([trace, baseline]) => p.load(trace, {baseline})", data)


def seek(page, step):
    page.evaluate("i => p.seek(i)", step)


def test_says_what_will_appear_before_anything_ran(player):
    assert player.locator(".rv-empty").is_visible()
    assert not player.locator(".rv-main").is_visible()


def test_text_of_tokens_is_never_markup(loaded):
    for step in range(4):
        seek(loaded, step)
    loaded.locator(".rv-tok").first.hover()
    assert "<script>" in loaded.locator(".rv-answer").inner_text()
    assert loaded.evaluate("window.pwned") is None
    assert loaded.locator(".rv img, .rv script").count() == 0
    assert "${1+1}{{2}}" in loaded.locator(".rv-answer").inner_text()


def test_a_character_split_over_two_tokens_is_put_together(loaded):
    assert "€" in loaded.locator(".rv-answer").inner_text()
    assert loaded.locator(".rv-tok.partial").count() == 1


def test_a_split_character_of_the_prompt_is_put_together_as_well(player):
    trace = rest_trace()
    trace.header.prompt_ids = [2, 7, 8, 2]
    load(player, trace)
    assert player.locator(".rv-answer .rv-ptok").all_inner_texts() == ["Hello", "▫", "€", "Hello"]


def test_code_keeps_its_white_space(loaded):
    answer = loaded.locator(".rv-answer")
    assert answer.evaluate("node => getComputedStyle(node).whiteSpace") == "pre-wrap"
    assert "\n    " in answer.evaluate("node => node.textContent")
    line = loaded.locator(".rv-tok", has=loaded.locator(".rv-nl")).first
    assert line.evaluate("node => node.textContent") == "↵\n    ", "a break can be seen, and is one"


def test_keys_step_through_the_run(loaded):
    at = lambda: loaded.evaluate("p.current")  # noqa: E731
    assert at() == 0
    loaded.keyboard.press("ArrowRight")
    assert at() == 1
    loaded.keyboard.press("End")
    assert at() == 3
    loaded.keyboard.press("ArrowRight")
    assert at() == 3
    loaded.keyboard.press("ArrowLeft")
    assert at() == 2
    loaded.keyboard.press("Home")
    assert at() == 0
    loaded.locator(".rv-controls select").select_option("0")
    loaded.keyboard.press("Tab")
    loaded.evaluate("document.activeElement.blur()")
    loaded.keyboard.press(" ")
    loaded.wait_for_function("p.current === 3")
    assert loaded.evaluate("p.playing") is False


def test_everything_is_reachable_by_tab(loaded):
    seek(loaded, 1)
    reached = set()
    for _ in range(20):
        loaded.keyboard.press("Tab")
        reached.add(loaded.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.type"))
    assert {"Step back", "Play", "Step forward", "Step", "Playback pace", "checkbox"} <= reached
    assert any(label and label.startswith("Draft tree") for label in reached)


def test_tree_marks_fates_by_more_than_colour(loaded):
    seek(loaded, 1)
    nodes = lambda kind: loaded.locator(f".rv-tree .n-{kind}")  # noqa: E731
    assert nodes("accepted").count() == 3
    assert "✓" in nodes("accepted").first.text_content()
    assert nodes("declined").count() == 2  # " world" beside the first accepted, "&amp;" beside the second
    assert nodes("declined").first.locator(".cross").count() == 2
    assert nodes("unreached").count() == 1
    assert "◆" in nodes("bonus").text_content()
    assert nodes("pruned_budget").count() == 0
    loaded.locator('.rv-check label:has-text("pruned") input').check()
    assert nodes("pruned_budget").count() == 2
    assert "2 more not kept" in loaded.locator(".rv-check").inner_text()


def test_hovering_a_node_shows_what_it_is_and_where_in_the_text(loaded):
    seek(loaded, 1)
    loaded.locator(".rv-tree .n-accepted").nth(1).hover()
    details = loaded.locator(".rv-inspector").inner_text()
    assert "accepted" in details
    assert "5 of 11 continuations" in details
    assert "90 %" in details
    assert loaded.locator(".rv-tok.hover").text_content() == " world"
    loaded.locator(".rv-tree .n-declined").last.hover()
    assert "Rejected: after" in loaded.locator(".rv-inspector").inner_text()
    assert "wanted" in loaded.locator(".rv-inspector").inner_text()


def test_hovering_a_token_shows_its_node_and_step(loaded):
    seek(loaded, 1)
    loaded.locator(".rv-tok", has_text="world").hover()
    assert "world" in loaded.locator(".rv-tree .hover").text_content()
    assert loaded.locator(".rv-bar.hover").count() == 1
    loaded.locator(".rv-tok").last.click()
    assert loaded.evaluate("p.current") == 3


def test_a_token_of_another_step_is_told_about(loaded):
    seek(loaded, 2)
    loaded.locator(".rv-tok", has_text="world").hover()
    assert loaded.locator(".rv-inspector h3").inner_text() == "“·world” of step 1"
    assert loaded.locator(".rv-tree .hover").count() == 0, "its node is in another tree"
    assert loaded.evaluate("p.current") == 2


def test_the_mark_of_a_token_goes_with_its_step(loaded):
    seek(loaded, 1)
    loaded.locator(".rv-tree .n-accepted").first.hover()
    assert loaded.locator(".rv-tok.hover").count() == 1
    seek(loaded, 2)
    assert loaded.locator(".rv-tok.hover").count() == 0


def test_tokens_can_be_visited_by_key_and_are_told(loaded):
    seek(loaded, 1)
    loaded.locator(".rv-answer").focus()
    loaded.keyboard.press("ArrowDown")
    first = loaded.evaluate("p.model.start[1]")
    assert loaded.locator(".rv-tok.hover").get_attribute("data-i") == str(first)
    said = loaded.locator(".rv-said").inner_text()
    assert said.startswith("“")
    assert "accepted, from datastore. Kept: after" in said
    loaded.keyboard.press("ArrowUp")
    loaded.keyboard.press("Enter")
    assert loaded.evaluate("p.current") == 0
    loaded.keyboard.press("ArrowRight")
    assert loaded.locator(".rv-said").inner_text().startswith("step 1 of 3. Longest suffix")


def test_nodes_that_are_visited_by_key_are_told(loaded):
    seek(loaded, 1)
    loaded.locator(".rv-svg").focus()
    for _ in range(2):
        loaded.keyboard.press("ArrowDown")
    assert "Kept: after" in loaded.locator(".rv-said").inner_text()


def test_arrows_scroll_a_table_that_is_wider_than_its_box(loaded):
    loaded.set_viewport_size({"width": 390, "height": 844})
    seek(loaded, 1)
    table = loaded.locator(".rv-compare .rv-scroll")
    table.focus()
    loaded.keyboard.press("ArrowRight")
    loaded.wait_for_function("document.querySelector('.rv-compare .rv-scroll').scrollLeft > 0")
    assert loaded.evaluate("p.current") == 1


def test_the_timeline_tells_tokens_of_different_origin_apart(player):
    trace = rasd_trace()
    load(player, trace)
    blocks = player.locator(".rv-bar").nth(1).locator("rect")
    assert [block.get_attribute("class") for block in blocks.all()] == ["f-fused", "f-datastore", "f-bonus"]
    assert [block.get_attribute("height") for block in blocks.all()] == ["2", "1", "1"]


@pytest.mark.parametrize("ending", [[], [2]])
def test_bytes_of_a_character_that_was_cut_are_not_lost(player, ending):
    text = player.evaluate(
        """([trace, ending]) => {
        trace.steps[1].bonus = 7;                                // the first bytes of the euro sign
        trace.steps = trace.steps.slice(0, 2);
        trace.steps.push(...ending.map((token) => ({ ...trace.steps[0], index: 2, bonus: token })));
        p.load(trace, {});
        return p.model.tokens.map((token) => token.text).join("");
    }""",
        [rest_trace().model_dump(mode="json"), ending],
    )
    assert text.endswith("\ufffd" + "Hello" * len(ending))


def test_nodes_can_be_visited_by_key(loaded):
    seek(loaded, 1)
    loaded.locator(".rv-svg").focus()
    loaded.keyboard.press("ArrowDown")
    loaded.keyboard.press("ArrowDown")
    assert loaded.locator(".rv-tree .hover").count() == 1
    assert "fate" in loaded.locator(".rv-inspector").inner_text()
    assert loaded.evaluate("p.current") == 1


def test_big_tree_is_drawn_whole_and_stays_readable(loaded):
    seek(loaded, 3)
    assert loaded.locator(".rv-tree [data-node]").count() == 66  # 64 nodes, the root, the target's own token
    assert loaded.evaluate("p.tree.view.k") >= 0.8
    boxes = loaded.evaluate("p.tree.shape.boxes.map(b => [b.x, b.y, b.width, b.height])")
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y, "two nodes overlap"
    before = loaded.evaluate("p.tree.view.k")
    loaded.get_by_label("Zoom in").click()
    assert loaded.evaluate("p.tree.view.k") > before
    box = loaded.locator(".rv-svg").bounding_box()
    x = loaded.evaluate("p.tree.view.x")
    loaded.mouse.move(box["x"] + 200, box["y"] + 250)
    loaded.mouse.down()
    loaded.mouse.move(box["x"] + 120, box["y"] + 240, steps=4)
    loaded.mouse.up()
    assert loaded.evaluate("p.tree.view.x") == pytest.approx(x - 80, abs=2)


def test_matched_suffix_is_outlined_and_explained(loaded):
    seek(loaded, 1)
    assert loaded.locator(".rv-answer .in-match").count() == 3
    why = loaded.locator(".rv-why").inner_text()
    assert "3 tokens" in why
    assert "11 places" in why
    seek(loaded, 2)
    assert "No match" in loaded.locator(".rv-why").inner_text()
    seek(loaded, 3)
    assert "4,000 places, 1,000 of them sampled" in loaded.locator(".rv-why").inner_text()


def test_figures_agree_with_the_trace(loaded):
    trace = rest_trace()
    baseline = baseline_trace(trace.tokens)
    speedup = trace.tokens_per_second / baseline.tokens_per_second
    assert loaded.locator(".rv-big").inner_text() == f"{speedup:.2f}×"
    figures = loaded.locator(".rv-figures").inner_text()
    assert f"{trace.tokens_per_second:.1f} tokens/s" in figures
    assert f"{baseline.tokens_per_second:.1f} tokens/s" in figures
    assert f"{trace.mean_generated_length:.2f} tokens" in figures
    assert "identical" in loaded.locator(".rv-badge").get_attribute("data-state")


def test_badge_names_the_first_different_token(player):
    trace = rest_trace()
    other = trace.tokens
    other[5] = 123
    load(player, trace, baseline_trace(other))
    badge = player.locator(".rv-badge")
    assert badge.get_attribute("data-state") == "differs"
    assert "token 6: “${1+1}{{2}}” here, “·w123” there" in badge.inner_text()
    assert "whole text" not in badge.inner_text()
    load(player, trace.model_copy(update={"check": Check(tokens=40, differs=[5], gap=[0.03])}), baseline_trace(other))
    assert "would choose 39 of its 40 tokens; the others miss by at most 0.030 in logits." in badge.inner_text()


def test_badge_does_not_call_a_shorter_text_identical(player):
    trace = rest_trace()
    load(player, trace, baseline_trace([*trace.tokens, 101]))
    badge = player.locator(".rv-badge")
    assert badge.get_attribute("data-state") == "differs"
    assert f"{len(trace.tokens)} here, {len(trace.tokens) + 1} in the baseline" in badge.inner_text()


def test_unsteady_timing_is_said(player):
    trace = rest_trace()
    baseline = baseline_trace(trace.tokens)
    load(player, trace, baseline)
    assert not player.locator(".rv-warning").is_visible()
    for step in baseline.steps[8:]:
        step.times.forward = 40.0
    load(player, trace, baseline)
    assert "12.0 ms to 40.0 ms" in player.locator(".rv-warning").inner_text()


def test_scrubbing_moves_through_the_run(loaded):
    box = loaded.locator(".rv-range").bounding_box()
    loaded.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    assert loaded.evaluate("p.current") == 2
    loaded.locator(".rv-range").fill("3")
    assert loaded.evaluate("p.current") == 3


def test_charts_hold_every_step(loaded):
    loaded.set_viewport_size({"width": 1440, "height": 1600})
    loaded.add_script_tag(path=PLOTLY / "plotly.min.js")  # it may arrive late
    loaded.evaluate("p.charts.attach(Plotly)")
    loaded.wait_for_function("p.charts.drawn?.times === 4 && p.charts.drawn.tokens === 4 && p.charts.drawn.base > 0")
    assert loaded.evaluate("p.charts.tokens.data.map(t => t.y)") == [[0, 3, 0, 10], [1, 1, 1, 1]]
    assert loaded.evaluate("p.charts.race.data[0].y") == [0, 4, 5, 16]
    assert loaded.evaluate("p.charts.race.data[1].x.length") == 17
    assert loaded.evaluate("p.charts.times.data[0].y") == [20, 15, 30]


def test_steps_that_come_live_are_shown_and_can_be_left(player):
    trace = rest_trace().model_dump(mode="json")
    player.evaluate("([t]) => { window.t = t; p.start(t.header) }", [trace])
    for i in range(2):
        player.evaluate("i => p.push(t.steps[i], t.token_text, t.token_bytes, Date.now() / 1000)", i)
    player.wait_for_function("p.current === 1")
    assert "live" in player.locator(".rv-where").inner_text()
    player.keyboard.press("Home")
    player.evaluate("p.push(t.steps[2], {}, {}, Date.now() / 1000)")
    player.wait_for_function("p.latencies.length === 3")
    assert player.evaluate("p.current") == 0  # looking at an earlier step is not interrupted
    player.keyboard.press("End")
    player.evaluate("p.push(t.steps[3], {}, {}, Date.now() / 1000)")
    player.evaluate("p.finish(t.finish)")
    player.wait_for_function("p.current === 3 && !p.live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(player, scheme):
    player.emulate_media(color_scheme=scheme)
    trace = rest_trace()
    load(player, trace, baseline_trace(trace.tokens))
    seek(player, 1)
    player.locator('.rv-check label:has-text("pruned") input').check()
    player.wait_for_timeout(300)
    low = player.evaluate(CONTRAST)
    assert low == []


# Texts below 4.5:1 on their background.  What steps past and not reached fade to is left out: it is inactive content.
CONTRAST = """() => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const background = (node) => {
    for (; node && node.nodeType === 1; node = node.parentElement) {
      const style = getComputedStyle(node), rect = node.matches?.('.rv-node') && node.querySelector('rect');
      const c = parse(rect ? getComputedStyle(rect).fill : style.backgroundColor);
      if (c[3] > 0.99) return c;
    }
    return document.querySelector('.rv').dataset.theme === 'dark' ? [0, 0, 0] : [255, 255, 255];
  };
  const low = [];
  const walk = document.createTreeWalker(document.querySelector('.rv'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode, node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest('.later, .rv-plot, option, :disabled')) continue;
    const style = getComputedStyle(node);
    const ink = parse(node.namespaceURI.endsWith('svg') ? style.fill : style.color);
    const [a, b] = [light(ink), light(background(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const name = node.className.baseVal ?? node.className;
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${name}: ${text.data.slice(0, 30)}`);
  }
  return low;
}"""


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_nothing_sticks_out_sideways(loaded, size):
    loaded.set_viewport_size({"width": size[0], "height": size[1]})
    seek(loaded, 3)
    assert loaded.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def rasd(player):
    load(player, rasd_trace(), baseline_trace(rasd_trace().tokens))
    seek(player, 1)
    return player


def on_stage(page):
    """Texts of the nodes in the tree, without those that are fading away."""
    return page.locator(".rv-tree [data-node] .label").all_text_contents()


def test_stages_of_rasd_show_what_each_left(rasd):
    stages = rasd.locator(".rv-stage")
    counts = [text.split("\n")[-1] for text in stages.all_inner_texts()]
    assert counts == ["8 found", "4 stay", "+ 4 drafted", "6 to verify, 2 shared", "3 accepted"]
    assert stages.nth(4).get_attribute("aria-checked") == "true"
    why = rasd.locator(".rv-why")
    stages.nth(0).click()
    assert sorted(on_stage(rasd)) == [f"·w{w}" for w in (100, 101, 102, 103, 104, 120, 121, 140, 141)]
    assert (
        "3 tokens of the text’s end in made, at 14 places; 2 tokens of the text’s end in the text so far"
        in why.inner_text()
    )
    stages.nth(1).click()
    assert rasd.locator(".rv-tree .n-pruned_first_token").count() == 4
    assert rasd.locator(".rv-tree .s-model").count() == 0, "the draft model's tree is not there yet"
    assert "rank 143" in rasd.locator(".rv-tree").inner_text()
    stages.nth(2).click()
    rasd.wait_for_function("document.querySelectorAll('.rv-tree .rv-node').length === 5")
    assert sorted(on_stage(rasd)) == [f"·w{w}" for w in (100, 101, 102, 110, 111)]
    stages.nth(3).click()
    assert sorted(on_stage(rasd)) == [f"·w{w}" for w in (100, 101, 102, 103, 104, 110, 111)]
    assert rasd.locator(".rv-tree [data-node].s-fused").count() == 2
    assert rasd.locator(".rv-tree [data-node].s-datastore").count() == 2
    assert rasd.locator(".rv-tree [data-node].s-model").count() == 2


def test_a_pruned_branch_says_why_with_the_draft_models_numbers(rasd):
    rasd.keyboard.press("2")
    rasd.locator(".rv-tree [data-node]", has_text="w121").hover()
    inspector = rasd.locator(".rv-inspector")
    assert (
        "its first token “·w120” is not among the draft model’s top 10 (rank 143, p = 0.00040)"
        in inspector.inner_text()
    )
    assert "datastore (made)" in inspector.inner_text()
    rasd.locator(".rv-tree [data-node]", has_text="w140").hover()
    assert "(not in its vocabulary)" in inspector.inner_text()
    rasd.mouse.move(0, 0)
    rasd.keyboard.press("3")
    rasd.keyboard.press("2")
    bars = rasd.locator(".rv-inspector .c-model .rv-choice")
    assert [text.split("\n")[0] for text in bars.all_inner_texts()] == ["✓ ·w101", "·w110", "·w150"]


def test_a_node_says_how_it_was_found_and_what_the_draft_model_said(rasd):
    node = {
        path: i
        for i in range(len(rasd_trace().steps[1].nodes.token))
        if (path := tuple(rasd_trace().steps[1].nodes.token[j] for j in rasd_trace().steps[1].nodes.path(i)))
    }

    def told(path):
        rasd.evaluate(f"p.pointNode({node[path]})")
        rows = rasd.locator(".rv-inspector dl > div").all_inner_texts()
        return dict(row.split("\n", 1) for row in rows)

    both = told((101, 102))
    assert both["ahead"] == "2 tokens"
    assert both["matched"] == "3 tokens of the text’s end"
    assert both["draft model"] == "rank 1, 50 % for this token"
    assert both["– path"] == "41 %"
    assert told((110,))["draft model"] == "rank 2, 14 % for this token"
    assert told((120,))["draft model"] == "rank 143, < 0.1 % for this token"
    assert told((140,))["draft model"] == "not in its vocabulary"
    assert told((120, 121))["draft model"] == "did not look here"


def test_a_branch_that_is_pruned_beside_the_models_is_the_models_alone(player):
    trace = rasd_trace()
    step = trace.steps[1]
    step.first.k, step.first.tested[0].rank = (
        1,
        2,
    )  # now pruning drops the branch whose nodes the draft model drafted too
    load(player, trace)
    seek(player, 1)
    counts = player.evaluate("RestViz.stages(p.model.steps[1])")
    assert (counts["retrieved"], counts["kept"], counts["shared"]) == (8, 0, 0)
    player.keyboard.press("2")
    assert player.locator(".rv-tree .n-pruned_first_token").count() == 8
    player.keyboard.press("5")
    kinds = [node.get_attribute("class") for node in player.locator(".rv-tree .n-accepted").all()]
    assert [" s-model" in kind for kind in kinds] == [True, True, False]


def test_a_node_over_the_cap_is_in_every_stage_before(player):
    trace = rasd_trace()
    nodes = trace.steps[1].nodes
    over = nodes.token.index(104)
    nodes.fate[over] = "pruned_cap"
    load(player, trace)
    seek(player, 1)
    counts = player.evaluate("RestViz.stages(p.model.steps[1])")
    assert (counts["retrieved"], counts["kept"], counts["fused"], counts["over"]) == (8, 4, 5, 1)
    player.keyboard.press("4")
    assert "w104" not in "".join(on_stage(player))
    assert "1 node is over the cap" in player.locator(".rv-why").inner_text()
    player.evaluate(f"p.pointNode({over})")
    assert "the fused tree's cap is full with 5 likelier nodes" in player.locator(".rv-inspector").inner_text()


def test_stages_are_reached_by_keyboard_and_kept_while_stepping(rasd):
    rasd.keyboard.press("4")
    assert rasd.evaluate("p.stage") == "fuse"
    rasd.locator(".rv-stage[aria-checked=true]").focus()
    rasd.keyboard.press("ArrowLeft")
    assert rasd.evaluate("[p.stage, p.current]") == ["draft", 1]
    assert rasd.evaluate("document.activeElement.textContent").startswith("3 Draft")
    rasd.evaluate("document.activeElement.blur()")
    rasd.keyboard.press("ArrowLeft")
    assert not rasd.locator(".rv-stages").is_visible()  # the prefill has no stages
    rasd.keyboard.press("ArrowRight")
    assert rasd.locator(".rv-stage").nth(2).get_attribute("aria-checked") == "true"


def test_one_transition_moves_what_stays_and_fades_what_goes(rasd):
    rasd.keyboard.press("3")
    rasd.evaluate("document.getAnimations().forEach((animation) => animation.finish())")
    rasd.keyboard.press("4")
    moving = rasd.evaluate("document.getAnimations().filter((a) => a.effect.target.closest('.rv-tree')).length")
    assert moving >= 6
    rasd.wait_for_function("!document.getAnimations().some((a) => a.effect.target.closest('.rv-tree'))")
    rasd.emulate_media(reduced_motion="reduce")
    rasd.keyboard.press("3")
    assert rasd.evaluate("document.getAnimations().length") == 0


def test_other_methods_have_no_stages(loaded):
    seek(loaded, 1)
    assert not loaded.locator(".rv-stages").is_visible()


def test_runs_of_one_prompt_are_compared(player):
    rest = rest_trace()
    load(player, rest, baseline_trace(rest.tokens))
    rows = player.locator(".rv-compare tbody tr")
    assert rows.count() == 2
    player.evaluate("trace => p.look(p.compare.models[0])", None)
    other = rest.model_copy(deep=True)
    other.header.method = "pld"
    player.evaluate("([trace]) => p.load(trace)", [other.model_dump(mode="json")])
    assert [text.split("\t")[0] for text in rows.all_inner_texts()] == ["autoregressive", "REST", "PLD"]
    cells = rows.nth(1).locator("td").all_inner_texts()
    baseline = baseline_trace(rest.tokens)
    assert cells[0] == f"{rest.tokens_per_second:.1f}"
    assert cells[2] == f"{rest.tokens_per_second / baseline.tokens_per_second:.2f}×"
    assert cells[3] == f"{rest.mean_generated_length:.2f}"
    assert cells[4:] == ["3", "0.2", "✓ identical"]
    player.locator(".rv-compare tbody button", has_text="REST").click()
    assert player.evaluate("[p.model.header.method, p.current]") == ["rest", 0]


def test_lanes_replay_on_one_clock(player):
    rest = rest_trace()
    load(player, rest, baseline_trace(rest.tokens))
    done = rest.seconds
    player.evaluate("t => { p.compare.time = t; p.compare.show(); }", done)
    widths = player.evaluate("p.compare.shown.map((m) => parseFloat(m.lane.bar.style.width))")
    assert widths[1] == 100
    assert 0 < widths[0] < 100
    player.locator("[aria-label='Replay speed']").select_option("4")
    player.evaluate("p.compare.time = Infinity")
    player.locator("[aria-label='Replay all']").click()
    player.wait_for_function("p.compare.frame === null && p.compare.shown[0].lane.figure.textContent.includes(' in ')")


def test_only_the_datastores_with_the_longest_match_are_named(player):
    trace = rest_trace()
    trace.steps[1].matches.append(Match(retriever="short", length=1, hits=500, sampled=500))
    load(player, trace)
    seek(player, 1)
    why = player.locator(".rv-why").inner_text()
    assert "found in made: 3 tokens" in why
    assert "short" not in why


def slower(trace, factor):
    again = trace.model_copy(deep=True)
    for step in again.steps:
        step.times = Times(**{name: value * factor for name, value in step.times.model_dump().items()})
    return again


def test_repeats_of_a_run_make_a_spread(player):
    trace = rest_trace()
    base = baseline_trace(trace.tokens)
    for factor in (1.0, 3.0, 2.0):
        run_live(player, slower(base, factor), "baseline")
        run_live(player, slower(trace, factor))
    rows = player.locator(".rv-compare tbody tr")
    assert rows.count() == 2
    speed = trace.tokens_per_second
    cells = rows.nth(1).locator("td").all_inner_texts()
    assert cells[0] == f"{speed / 2:.1f} (3 runs)", "the median"
    assert cells[2] == f"{speed / base.tokens_per_second:.2f}×", "of medians"
    title = rows.nth(1).locator(".rv-speed").get_attribute("title")
    assert title == f"3 repeats: {speed / 3:.1f} to {speed:.1f} tokens/s"
    assert player.locator(".rv-whisker").count() == 2
    player.evaluate("trace => p.open({ trace, baseline: null })", rasd_trace().model_dump(mode="json"))
    assert not player.locator(".rv-compare").is_visible(), "another prompt's runs are no repeats"


def run_live(page, trace, role="run", steps=None, reason=None):
    raw = trace.model_dump(mode="json")
    raw["steps"] = raw["steps"][:steps]
    raw["finish"] |= {"reason": reason} if reason else {}
    page.evaluate(
        """([raw, role]) => {
        p.start(raw.header, { role, text: raw.token_text, bytes: raw.token_bytes });
        raw.steps.forEach(step => p.push(step, {}, {}));
        p.finish(raw.finish);
    }""",
        [raw, role],
    )


@pytest.fixture
def stopped(player):
    """A run and its baseline, which was measured again and stopped."""
    trace = rest_trace()
    base = baseline_trace(trace.tokens)
    run_live(player, base, "baseline")
    run_live(player, trace)
    run_live(player, base, "baseline", steps=3, reason="stopped")
    return player


def test_a_baseline_that_was_stopped_takes_the_place_of_none(stopped):
    rows = stopped.locator(".rv-compare tbody tr")
    assert [text.split("\t")[-1] for text in rows.all_inner_texts()] == ["baseline", "✓ identical"]


def test_after_a_stopped_baseline_runs_are_still_compared_with_the_whole_one(stopped):
    stopped.locator(".rv-compare tbody button", has_text="REST").click()
    assert stopped.locator(".rv-badge").get_attribute("data-state") == "identical"


def test_without_a_baseline_runs_are_compared_with_nothing(player):
    runs = [rest_trace().model_dump(mode="json"), rest_trace().model_dump(mode="json")]
    runs[1]["header"]["method"] = "pld"
    player.evaluate("([trace, other]) => p.open({ trace, baseline: null, others: [other] })", runs)
    rows = player.locator(".rv-compare tbody tr")
    assert [text.split("\t")[-1] for text in rows.all_inner_texts()] == ["–", "–"]
    assert [rows.nth(i).locator("td").nth(2).inner_text() for i in range(2)] == ["–", "–"]


def test_what_stands_after_the_last_token_was_not_refused(player):
    trace = rasd_trace()
    step = trace.steps[1]
    step.accepted, step.bonus = step.accepted[:1], None  # the answer ends in a token that has children
    for node in range(1, len(step.nodes.token)):
        if step.nodes.fate[node] == "accepted" and node not in step.accepted:
            step.nodes.fate[node] = "rejected"
    load(player, trace)
    seek(player, 1)
    child = step.nodes.parent.index(step.accepted[0])
    player.evaluate(f"p.pointNode({child})")
    assert "the answer ended before it" in player.locator(".rv-inspector").inner_text()
    assert player.locator(".rv-tree .n-declined").count() == 1, "beside the token that was accepted"


def test_a_run_of_one_token_has_no_speedup_yet(player):
    trace = rest_trace()
    run_live(player, baseline_trace(trace.tokens), "baseline")
    run_live(player, trace, steps=1)
    assert player.locator(".rv-compare tbody tr").nth(1).locator("td").all_inner_texts()[2] == "–"


def test_charts_of_a_whole_run_wait_for_its_end(player):
    with_charts(player, rest_trace())
    raw = rest_trace().model_dump(mode="json")
    player.evaluate("raw => { p.start(raw.header); p.push(raw.steps[0], {}, {}); p.push(raw.steps[1], {}, {}); }", raw)
    assert not player.locator("[data-chart=histogram]").is_visible()
    player.evaluate("raw => p.finish(raw.finish)", raw)
    player.locator("[data-chart=histogram]").scroll_into_view_if_needed()
    player.wait_for_function("p.charts.histogram.data?.[0].y.reduce((a, b) => a + b) === 1")


def test_a_bar_of_a_chart_leads_to_its_step(player):
    with_charts(player, rest_trace())
    player.locator("[data-chart=tokens]").scroll_into_view_if_needed()
    player.wait_for_function("p.charts.drawn?.tokens === 4")
    player.locator("[data-chart=tokens] .point path").nth(3).click(force=True)
    player.wait_for_function("p.current === 3")


def test_recorded_runs_are_no_repeats_of_those_made_here(player):
    trace = rest_trace()
    base, run = (t.model_dump(mode="json") for t in (baseline_trace(trace.tokens), trace))
    player.evaluate("([base, run]) => p.open({ trace: run, baseline: base, from: 'recorded' })", [base, run])
    assert player.locator(".rv-from").inner_text() == "recorded"
    assert player.locator(".rv-compare tbody tr").count() == 2
    run_live(player, baseline_trace(trace.tokens), "baseline")
    assert player.evaluate("p.compare.models.length") == 1
    assert player.evaluate("p.compare.spread(p.model).n") == 1
    player.wait_for_function("document.querySelector('.rv-from').hidden")


def shown(page, chart):
    return page.evaluate(
        """chart => document.querySelector(`[data-chart=${chart}] .rv-plot`).data?.map(({ name, x, y }) => ({
        name, x: [...x], y: [...y] }))""",
        chart,
    )


def with_charts(page, trace):
    """A player that has plotly.js, with a run open in it."""
    page.add_script_tag(path=PLOTLY / "plotly.min.js")
    page.evaluate(
        """trace => {
        const host = document.getElementById("host");
        host.replaceChildren();
        window.p = RestViz.createPlayer(host);
        p.open({ trace, baseline: null });
    }""",
        trace.model_dump(mode="json"),
    )


def test_charts_of_a_whole_run_are_its_numbers(player):
    trace = rasd_trace()
    trace.header.environment.forward_ms = {1: 10.0, 2: 11.0, 64: 40.0}
    with_charts(player, trace)
    player.locator("[data-chart=costs]").scroll_into_view_if_needed()
    player.wait_for_function("document.querySelector('[data-chart=costs] .rv-plot').data")
    (step,) = trace.steps[1:]
    (sizes,) = shown(player, "histogram")
    assert dict(zip(sizes["x"], sizes["y"], strict=True)) == {1: 0, 2: 0, 3: 0, len(step.emitted): 1}
    depths = {series["name"]: series["y"] for series in shown(player, "depths")}
    assert [sum(values) for values in zip(*depths.values(), strict=True)] == [1, 1, 1], "each depth was accepted once"
    curve, points = shown(player, "costs")
    assert (curve["x"], curve["y"]) == ([1, 2, 64], [10, 11, 40])
    verified = sum(not fate.startswith("pruned") for fate in step.nodes.fate)
    assert (points["x"], points["y"]) == ([verified], [step.times.forward])


@pytest.mark.parametrize("format", ["svg", "png"])
def test_charts_can_be_kept(player, tmp_path, format):
    with_charts(player, rest_trace())
    player.wait_for_function("p.charts.ready")
    with player.expect_download() as download:
        player.get_by_label(f"Tokens per step as {format.upper()}").click()
    download.value.save_as(tmp_path / "chart")
    assert download.value.suggested_filename == f"restviz-tokens.{format}"
    assert (tmp_path / "chart").read_bytes()[:5] in (b"<svg ", b"\x89PNG\r")


def test_every_fate_is_told_with_its_numbers(player):
    load(player, rasd_trace())
    seek(player, 1)
    step = rasd_trace().steps[1]
    label = lambda node: f" w{step.nodes.token[node]}".replace(" ", "·")  # noqa: E731
    told = {}
    for node, fate in enumerate(step.nodes.fate):
        player.evaluate(f"p.pointNode({node})")
        told.setdefault(fate, []).append((node, player.locator(".rv-inspector .rv-hint").first.inner_text()))
    first = step.accepted[0]
    assert told["accepted"][0][1] == f"Kept: after “{label(0)}” the target itself writes this token (90 %)."
    wanted = f"wanted “{label(first)}” (90 %)."
    assert f"Rejected: after “{label(0)}” the target gives it 1.0 %, and {wanted}" in dict(told["rejected"]).values()
    assert any("not reached" in text for _, text in told["rejected"])
    assert told["pruned_budget"][0][1] == (
        "Pruned: found once, and the budget of the datastore is full with 6 nodes, each found 3 times or more. "
        "Never verified."
    )
    assert "(rank 143, p = 0.00040)" in told["pruned_first_token"][0][1]
