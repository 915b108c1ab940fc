"""“What if” and provenance in a real browser, with prepared answers; test_live_page.py asks the real engine."""

from __future__ import annotations

import pytest
from made import rasd_trace

from restviz.ui.export import PLOTLY

FIELDS = {
    "rasd": [
        {"name": "prune_k", "label": "k", "text": "", "min": 0, "max": 1000},
        {"name": "retrievers", "label": "Retrieve from", "text": "", "choices": ["datastore", "context", "both"]},
        {"name": "stores", "label": "Datastores", "text": "", "choices": ["made", "other"], "many": True},
    ]
}


@pytest.fixture
def asked(player):
    """A player whose questions are kept in `asked`, and answered with the step as it was, or with a sentence."""
    trace = rasd_trace()
    trace.header.parameters |= {"prune_k": 10}
    player.evaluate(
        """([trace, fields]) => {
        Object.assign(window, { asked: [], trace, other: trace.steps[1] });
        const host = document.getElementById("host");
        host.replaceChildren();
        const whatIf = async (model, changes, position) => {
            asked.push([changes, position]);
            if (changes.prune_k > 1000) throw new Error("prune_k cannot be that large.");
            await window.gate;
            if (position === null) return { M: 1 + (changes.prune_k ?? 10) / 10, forwards: 3 };
            return { step: other, text: {}, bytes: {}, datastores: [...trace.header.datastores] };
        };
        window.p = RestViz.createPlayer(host, { whatIf, fields });
        p.open({ trace, baseline: null });
        p.seek(1);
    }""",
        [trace.model_dump(mode="json"), FIELDS],
    )
    return player


def test_a_change_is_drafted_anew_beside_the_step(asked):
    assert asked.evaluate("asked.length") == 0, "nothing is asked before anyone wants to know"
    asked.get_by_text("What if…").click()
    asked.wait_for_function("asked.length === 1")
    asked.get_by_label("k", exact=True).fill("3")
    asked.get_by_label("Retrieve from").select_option("context")
    asked.wait_for_function("asked.at(-1)?.[0].retrievers === 'context'")
    changes, position = asked.evaluate("asked.at(-1)")
    assert changes == {"prune_k": 3, "retrievers": "context"}
    assert position == asked.evaluate("p.model.steps[1].position")
    asked.wait_for_selector(".rv-told strong")
    assert "accepted of" in asked.locator(".rv-told").inner_text()
    assert "it was the same" in asked.locator(".rv-told").inner_text()
    assert asked.locator(".rv-whatif .rv-node").count() == asked.locator(".rv-split .rv-node").count()


def test_what_is_new_in_the_other_tree_is_marked(asked):
    asked.get_by_text("What if…").click()
    asked.wait_for_selector(".rv-told strong")
    assert asked.locator(".rv-other circle.fresh").count() == 0
    asked.evaluate("""() => {
        const nodes = trace.steps[1].nodes, other = structuredClone(trace.steps[1]);
        window.changed = nodes.fate.findIndex((fate, i) => i && fate === "rejected" && !nodes.parent.includes(i));
        other.nodes.token[changed] = 199;
        window.other = other;
    }""")
    asked.get_by_label("k", exact=True).fill("7")
    asked.wait_for_function("asked.at(-1)?.[0].prune_k === 7")
    asked.wait_for_selector(".rv-other circle.fresh")
    assert asked.locator(".rv-other .rv-node.fresh").get_attribute("data-node") == str(asked.evaluate("changed"))
    assert asked.locator(".rv-other .rv-node.fresh").get_attribute("aria-label").endswith(", new")
    assert asked.locator(".rv-split circle.fresh").count() == 0
    size = asked.evaluate("RestViz.verified(trace.steps[1])")
    assert f"it was 3 of {size}: 1 new (+), 1 gone." in asked.locator(".rv-told").inner_text()


def test_the_other_tree_follows_the_stage(asked):
    asked.get_by_text("What if…").click()
    asked.wait_for_selector(".rv-told strong")
    assert "retrieved → " in asked.locator(".rv-told").inner_text()
    for stage in ("retrieve", "prune", "draft", "fuse"):
        asked.evaluate("stage => p.show(stage)", stage)
        own, other = (asked.locator(f"{panel} .rv-node").count() for panel in (".rv-split", ".rv-whatif"))
        assert own == other > 1


def test_what_cannot_be_is_told_in_the_panel(asked):
    asked.get_by_text("What if…").click()
    asked.get_by_label("k", exact=True).fill("2000")
    asked.wait_for_function("document.querySelector('.rv-told').textContent === 'k cannot be that large.'")


def test_a_sweep_shows_m_for_several_values(asked):
    asked.add_script_tag(path=PLOTLY / "plotly.min.js")
    asked.evaluate("p.charts.attach(Plotly)")
    asked.get_by_text("What if…").click()
    asked.get_by_role("button", name="Sweep").click()
    asked.wait_for_selector("button:text('Sweep'):not([disabled])")
    values, m, now = asked.evaluate("[p.whatIf.curve.data[0].x, p.whatIf.curve.data[0].y, p.whatIf.curve.data[1].x]")
    assert values == sorted(values)
    assert {0, 1, 10, 64} <= set(values)
    assert m == pytest.approx([1 + value / 10 for value in values])
    assert now == [10]
    assert "64: 7.40" in asked.locator(".rv-whatif .rv-plot").get_attribute("aria-label")
    assert "M is 7.40 at best, where k is 64." in asked.locator(".rv-whatif").inner_text()


def test_a_sweep_is_of_the_parameters_as_they_were_when_it_began(asked):
    asked.get_by_text("What if…").click()
    asked.get_by_label("Retrieve from").select_option("context")
    asked.evaluate("() => { window.gate = new Promise((open) => (window.open_gate = open)); }")
    asked.get_by_role("button", name="Sweep").click()
    asked.get_by_label("Retrieve from").select_option("both")
    asked.evaluate("open_gate()")
    asked.wait_for_selector("button:text-is('Sweep'):not([disabled])")
    swept = asked.evaluate("asked.filter(([, position]) => position === null).map(([changes]) => changes.retrievers)")
    assert len(swept) > 5
    assert set(swept) == {"context"}


def test_datastores_are_chosen_in_any_number(asked):
    asked.get_by_text("What if…").click()
    box = {name: asked.get_by_label(name, exact=True) for name in ("made", "other")}
    assert [one.is_checked() for one in box.values()] == [True, True]
    box["other"].uncheck()
    asked.wait_for_function("asked.at(-1)?.[0].stores === 'made'")
    box["made"].uncheck()
    asked.wait_for_function("document.querySelector('.rv-told').textContent === 'Choose at least one datastore.'")
    box["other"].check()
    asked.wait_for_function("asked.at(-1)?.[0].stores === 'other'")
    box["made"].check()
    asked.wait_for_function("asked.at(-1)?.[0].stores === ''")


def test_nodes_of_the_other_tree_are_told_about_as_well(asked):
    asked.get_by_text("What if…").click()
    asked.wait_for_selector(".rv-told strong")
    asked.locator(".rv-whatif .rv-svg").focus()
    for _ in range(3):
        asked.keyboard.press("ArrowDown")
    node = asked.evaluate("p.whatIf.tree.selected")
    assert asked.locator(".rv-other .rv-inspector h3").inner_text() == asked.evaluate(
        f"'“' + p.model.label(p.model.steps[1].nodes.token[{node}]) + '”'"
    )
    asked.locator(".rv-whatif .rv-node").nth(1).hover()
    assert "path" in asked.locator(".rv-other .rv-inspector").inner_text()


def test_the_other_trees_nodes_are_named_by_the_datastores_that_it_searched(asked):
    asked.get_by_text("What if…").click()
    asked.wait_for_selector(".rv-told strong")
    node = asked.evaluate("p.model.steps[1].nodes.source.findIndex(flags => flags & (1 << 9))")
    told = lambda: asked.evaluate(f"p.whatIf.point({node}), p.whatIf.details.innerText")  # noqa: E731
    assert "(made)" in told(), "the second of the run's"
    asked.evaluate("p.whatIf.as.header.datastores.reverse()")
    assert "(other)" in told()
    assert "(made)" in asked.evaluate(f"p.pointNode({node}), p.view.inspector.innerText"), "the run's are as they were"


def test_an_answer_that_comes_late_says_nothing_of_another_step(asked):
    asked.get_by_text("What if…").click()
    asked.wait_for_selector(".rv-told strong")
    asked.evaluate("() => { window.gate = new Promise((_, fail) => (window.fail_gate = () => fail(Error('late')))); }")
    asked.get_by_label("k", exact=True).fill("4")
    asked.wait_for_function("asked.at(-1)?.[0].prune_k === 4")
    asked.evaluate("p.seek(0)")
    asked.evaluate("() => { fail_gate(); window.gate = null; p.seek(1); }")
    asked.wait_for_selector(".rv-told strong")
    assert "late" not in asked.locator(".rv-told").inner_text()
    asked.evaluate("p.whatIf.show(p.model, { ...p.model.steps[1] }, 'verify', false)")
    assert not asked.locator(".rv-other").is_visible(), "it was the other step's"


def test_where_nobody_can_answer_nothing_is_offered(player):
    player.evaluate("trace => { p.open({ trace, baseline: null }); p.seek(1); }", rasd_trace().model_dump(mode="json"))
    assert not player.locator(".rv-whatif").is_visible()


def test_a_retrieved_node_shows_the_lines_it_is_from(player):
    player.evaluate(
        """trace => {
        const host = document.getElementById("host");
        host.replaceChildren();
        const places = async (model, step, node) => [{ datastore: "made", total: 7, locations: [
            { path: "a/b.py", record: 0, line: 12, before: "x = <b>", match: "1 + 2", after: "\\n" }] }];
        window.p = RestViz.createPlayer(host, { places });
        p.open({ trace, baseline: null });
        p.seek(1);
    }""",
        rasd_trace().model_dump(mode="json"),
    )
    node = player.evaluate("p.model.steps[1].nodes.source.findIndex(flags => flags & 1)")
    player.evaluate(f"p.pointNode({node})")
    player.wait_for_selector(".rv-places mark")
    assert player.locator(".rv-places mark").inner_text() == "1 + 2"
    text = player.locator(".rv-places").inner_text()
    assert "In made, at 7 places, 1 of them:" in text
    assert "a/b.py, line 12" in text
    assert "x = <b>" in text
    other = player.evaluate("p.model.steps[1].nodes.source.findIndex(flags => flags === 4)")
    player.evaluate(f"p.pointNode({other})")
    assert player.locator(".rv-places").count() == 0, "the draft model's own token stands nowhere"
