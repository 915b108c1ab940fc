"""The mask, the list, folded chains and the strength of colours: other ways to look at a step's tree."""

from __future__ import annotations

import pytest
from made import rasd_trace, rest_trace

pytestmark = pytest.mark.parametrize("player", ["inlined", "exported"], indirect=True)


@pytest.fixture
def rasd(player):
    player.evaluate("trace => { p.open({ trace, baseline: null }); p.seek(1); }", rasd_trace().model_dump(mode="json"))
    return player


@pytest.fixture
def big(player):
    """A tree of 65 nodes: six chains of ten, and a short one."""
    player.evaluate("trace => { p.open({ trace, baseline: null }); p.seek(3); }", rest_trace().model_dump(mode="json"))
    return player


def ancestors(nodes, node):
    seen = {node}
    while (node := nodes.parent[node]) >= 0:
        seen.add(node)
    return seen


@pytest.mark.parametrize("make", [rasd_trace, rest_trace])
def test_the_mask_shows_who_can_see_whom(player, make):
    trace = make()
    step = len(trace.steps) - 1
    player.evaluate(
        "([trace, i]) => { p.open({ trace, baseline: null }); p.seek(i); }", [trace.model_dump(mode="json"), step]
    )
    assert not player.locator(".rv-mask").is_visible()
    player.get_by_role("button", name="Mask").click()
    shown = player.evaluate(
        """[...document.querySelectorAll('.m-row')].map(row =>
        [...row.querySelectorAll('.m-sees')].map(cell => Math.round(cell.x.baseVal.value - 3.56)))"""
    )
    nodes = trace.steps[step].nodes
    order = [i for i, fate in enumerate(nodes.fate) if not fate.startswith("pruned")]
    assert [set(row) for row in shown] == [{order.index(i) for i in ancestors(nodes, node)} for node in order]
    player.get_by_role("button", name="Mask").click()
    assert not player.locator(".rv-mask").is_visible()


def test_mask_tree_and_list_point_at_each_other(rasd):
    rasd.get_by_role("button", name="Mask").click()
    rasd.get_by_role("button", name="List").click()
    marked = lambda: rasd.evaluate(  # noqa: E731
        """[document.querySelector('.rv-tree .rv-node.hover')?.dataset.node,
        document.querySelector('.rv-list .hover')?.dataset.node,
        String(p.mask.order[document.querySelector('.m-row.hover .m-band').dataset.row])]"""
    )
    rasd.locator(".m-row").nth(2).locator(".m-band").hover()
    node = rasd.evaluate("String(p.mask.order[2])")
    assert marked() == [node] * 3
    said = rasd.locator(".rv-mask figcaption").inner_text()
    assert said.startswith("Row 2, ")
    assert "sees the text" in said
    rasd.locator(".rv-list tbody tr").nth(1).hover()
    other = rasd.locator(".rv-list tbody tr").nth(1).get_attribute("data-node")
    assert marked() == [other] * 3
    rasd.locator(".rv-matrix").focus()
    rasd.keyboard.press("ArrowUp")
    up = rasd.evaluate(f"String(p.mask.order[p.mask.order.indexOf({other}) - 1])")
    assert marked()[0] == up
    assert rasd.locator(".rv-inspector h3").is_visible()


def test_the_list_has_every_node_the_accepted_first(rasd):
    rasd.get_by_role("button", name="List").click()
    fates = rasd.locator(".rv-list tbody td:last-child").all_inner_texts()
    nodes = rasd_trace().steps[1].nodes
    assert len(fates) == len(nodes.token) - 1
    assert fates[:3] == ["accepted"] * 3
    assert fates[-1] == "pruned: budget"
    rasd.locator(".rv-list button").first.focus()
    assert "accepted" in rasd.locator(".rv-inspector").inner_text(), "focus is enough, no mouse is needed"


def test_long_chains_fold_and_unfold(big):
    boxes = lambda: big.evaluate("p.tree.shape.boxes.length")  # noqa: E731
    whole = boxes()
    assert whole == 66  # with the target's own token
    big.get_by_label("fold chains").check()
    assert boxes() < whole - 40
    folded = big.locator(".rv-split .rv-node.folded").first
    assert "tokens" in folded.locator(".note").text_content()
    accepted = big.locator(".rv-split .rv-node.n-accepted").count()
    assert accepted == 10, "the accepted path stays as it is"
    size = int(folded.locator(".note").text_content().split()[0])
    before = boxes()
    node = folded.get_attribute("data-node")
    big.locator(".rv-svg").first.focus()
    big.evaluate(f"p.tree.choose({node})")
    big.keyboard.press("Enter")
    assert boxes() == before + size - 1
    big.get_by_label("fold chains").uncheck()
    assert boxes() == whole


def test_a_folded_node_can_be_pointed_at(big):
    big.get_by_label("fold chains").check()
    inner = big.evaluate("p.tree.shape.boxes.find(box => box.chain.length > 2).chain[2]")
    big.evaluate(f"p.pointNode({inner})")
    assert big.locator(".rv-split .rv-node.folded.hover").count() == 1


def test_the_strength_of_a_colour_is_a_probability(rasd):
    strength = lambda node: float(  # noqa: E731
        rasd.locator(f".rv-split [data-node='{node}'] rect").first.get_attribute("fill-opacity")
    )
    nodes = rasd_trace().steps[1].nodes
    path = {tuple(nodes.token[i] for i in nodes.path(node)): node for node in range(len(nodes.token))}
    declined = next(i for i, p in enumerate(nodes.target_p) if p == 0.01 and nodes.fate[i] == "rejected")
    assert strength(declined) == pytest.approx(0.1 + 0.9 * 0.01, abs=0.01)
    rasd.evaluate("p.show('draft')")
    assert strength(path[101,]) == pytest.approx(0.1 + 0.9 * 2.718281828**-0.2, abs=0.01)
    rasd.evaluate("p.show('retrieve')")
    assert strength(path[101,]) == pytest.approx(0.1 + 0.9 * nodes.count[path[101,]] / nodes.count[0], abs=0.01)
    assert "stronger: found more often" in rasd.locator(".rv-middle .rv-legend").inner_text()
