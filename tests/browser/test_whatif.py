"""“What if” and provenance in a real browser, with prepared answers; test_live_page.py asks the real engine."""

from __future__ import annotations

import pytest
from made import rasd_trace

FIELDS = {
    "rasd": [
        {"name": "prune_k", "label": "k", "text": "", "min": 0, "max": 1000},
        {"name": "retrievers", "label": "Retrieve from", "text": "", "choices": ["datastore", "context", "both"]},
    ]
}


@pytest.fixture
def asked(player):
    """A player whose questions are kept in `asked`, and answered with the step as it was, or with a sentence."""
    trace = rasd_trace()
    trace.header.parameters |= {"prune_k": 10}
    player.evaluate(
        """([trace, fields]) => {
        window.asked = [];
        const host = document.getElementById("host");
        host.replaceChildren();
        const whatIf = async (model, changes, position) => {
            asked.push([changes, position]);
            if (changes.prune_k > 1000) throw new Error("prune_k cannot be that large.");
            if (position === null) return { M: 1 + (changes.prune_k ?? 10) / 10, forwards: 3 };
            return { step: trace.steps[1], text: {}, bytes: {} };
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
    asked.wait_for_function("asked.at(-1)[0].retrievers === 'context'")
    changes, position = asked.evaluate("asked.at(-1)")
    assert changes == {"prune_k": 3, "retrievers": "context"}
    assert position == asked.evaluate("p.model.steps[1].position")
    asked.wait_for_selector(".rv-told strong")
    assert "accepted of" in asked.locator(".rv-told").inner_text()
    assert "it was the same" in asked.locator(".rv-told").inner_text()
    assert asked.locator(".rv-whatif .rv-node").count() == asked.locator(".rv-split .rv-node").count()


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
    asked.get_by_text("What if…").click()
    asked.get_by_role("button", name="Sweep").click()
    asked.wait_for_selector("button:text('Sweep'):not([disabled])")
    points = [text.split() for text in asked.locator(".rv-point").all_inner_texts()]  # value, perhaps “(now)”, M
    values = [int(point[0]) for point in points]
    assert values == sorted(values)
    assert {0, 1, 64} <= set(values)
    assert [float(point[-1]) for point in points] == pytest.approx([1 + value / 10 for value in values], abs=0.01)


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
