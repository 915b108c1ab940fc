"""Long runs: 400 steps of 64 nodes, and answers of 2,000 tokens.  Times are printed; the bounds are those that a person
would notice, far above what was measured, so that other work on the machine does not decide."""

from __future__ import annotations

import json
import statistics

import numpy as np
import pytest
from made import header, nodes

from restviz.trace import Finish, Look, Match, Step, Times, Trace
from restviz.tree import from_paths
from restviz.ui.export import PLOTLY

STEPS, NODES, ACCEPTED = 400, 64, 4


def long_trace() -> Trace:
    """400 steps with trees of 64 nodes, 5 tokens a step: 2,000 tokens."""
    words = {word: f" w{word}" for word in range(200)}
    trace = Trace(header=header("rest"), token_text=words)
    draw, root, position = np.random.default_rng(0), 2, 3
    for index in range(STEPS):
        starts = draw.permutation(100)[:8] + 100
        paths = [tuple(int(start + 7 * depth) % 100 + 100 for depth in range(8)) for start in starts]
        tree = from_paths(root, paths)
        path = [i for i, at in enumerate(tree.paths()) if at and at == paths[0][: len(at)]][:ACCEPTED]
        step = Step(
            index=index,
            position=position,
            nodes=nodes(tree, path, set()),
            matches=[Match(retriever="made", length=3, hits=40, sampled=40)],
            accepted=path,
            bonus=int(draw.integers(100, 200)),
            looks=[Look(node=node, token=list(range(100, 110)), p=[0.1] * 10) for node in [0, *path]],
            times=Times(retrieve=0.3, forward=40.0, accept=0.5, other=0.7),
        )
        assert len(step.nodes.token) == NODES + 1
        trace.steps.append(step)
        root, position = step.bonus, position + ACCEPTED + 1
    trace.finish = Finish(reason="max_new_tokens", message="Stopped at the limit.")
    return trace


@pytest.fixture(scope="module")
def data() -> str:
    return long_trace().model_dump_json()


@pytest.fixture
def player(player):
    player.add_script_tag(path=PLOTLY / "plotly.min.js")
    player.evaluate("p.charts.attach(Plotly)")
    return player


def test_a_long_run_is_on_screen_soon_and_steps_fast(player, data):
    first = player.evaluate(
        """data => new Promise((done) => {
        const trace = JSON.parse(data), start = performance.now();
        p.open({ trace, baseline: null });
        requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
    })""",
        data,
    )
    steps = player.evaluate(
        """async () => {
        const times = { step: [], jump: [] };
        for (const [name, by] of [["step", 1], ["jump", 37]]) {
            p.seek(0);
            for (let i = 1; i <= 60; i++) {
                const start = performance.now();
                p.seek((i * by) % 400);
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                times[name].push(performance.now() - start);
            }
        }
        return times;
    }"""
    )
    medians = {f"a {name}, ms": round(statistics.median(values), 1) for name, values in steps.items()}
    print(json.dumps({"first paint, ms": round(first), **medians}))
    assert player.locator(".rv-tok").count() >= STEPS * (ACCEPTED + 1)
    assert first < 5000
    assert max(medians.values()) < 250


def test_scrubbing_leaves_nothing_behind(player, data):
    player.evaluate("data => p.open({ trace: JSON.parse(data), baseline: null })", data)
    session = player.context.new_cdp_session(player)
    session.send("HeapProfiler.enable")
    scrub = """async () => {
        for (let i = 0; i < 500; i++) {
            p.seek((i * 37) % 400);
            if (i % 10 === 0) await new Promise(requestAnimationFrame);
        }
        p.seek(3);
        await new Promise(requestAnimationFrame);
    }"""

    def held():
        session.send("HeapProfiler.collectGarbage")
        heap = session.send("Runtime.getHeapUsage")["usedSize"]  # performance.memory is read only every 20 minutes
        return heap, session.send("Memory.getDOMCounters")["nodes"]  # those that are nowhere on the page as well

    player.evaluate(scrub)  # the first round fills what is kept on purpose
    memory, elements = held()
    for _ in range(2):
        player.evaluate(scrub)
    after, more = held()
    print(json.dumps({"MB": round(memory / 1e6, 1), "after 1,000 more steps": round(after / 1e6, 1)}))
    assert more < elements * 1.02 + 100
    assert after < memory * 1.1 + 1e6
