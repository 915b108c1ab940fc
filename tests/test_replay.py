"""A replay must be what a rerun would have been, for every method and parameter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from restviz.api import Engine
from restviz.drafters import MethodError
from restviz.replay import replay
from restviz.settings import Settings, SettingsError, recorded_settings

PROMPT = "def add(a, b):\n    return"
SAMPLED = {"temperature": 1.0, "seed": 5}
CHANGES = (
    {},
    {"method": "pld", "pld_n_max": 2},
    {"method": "rest", "budget": 3, "length": 4},
    {"method": "rest", "n_min": 3},
    {"method": "rest", "stores": "corpus"},
    {"method": "eagle", "draft_k": 3, "draft_depth": 2, "draft_nodes": 7},
    {"method": "assistant"},
    {"method": "rasd", "prune_k": 1},
    {"method": "rasd", "prune_k": 0, "fused_cap": 0},
    {"method": "rasd", "retrievers": "context", "draft_depth": 1},
)


@pytest.fixture(scope="module")
def engine(tiny, tiny_folder, tiny_engine, tmp_path_factory):
    """The tiny target with a datastore, a head whose guesses are far apart, and itself as assistant."""
    from restviz.drafters.assistant import load_assistant
    from restviz.drafters.eagle import load_head
    from restviz.train.head import new_head, write_head

    folder, ids = tmp_path_factory.mktemp("head"), np.arange(0, 300, 2)
    torch.manual_seed(3)
    net = new_head(tiny.model.config, len(ids))
    for parameter in net.parameters():
        parameter.data *= 8 if parameter.dim() > 1 else 1
    write_head(folder, net, ids, {})
    head = load_head(str(folder), tiny.model, "tiny")
    return Engine(tiny, tiny_engine.datastores, head, load_assistant(str(tiny_folder), tiny))


def record(engine, **settings):
    return engine.generate(PROMPT, Settings(**{"chat": False, "max_new_tokens": 40, "n_min": 1} | settings))


def essence(step):
    """All of a step but its number, its times and what rounding can touch."""
    nodes = step.nodes
    tree = sorted(zip(paths(nodes), nodes.source, nodes.count, nodes.fate, strict=True))
    return step.position, tree, step.matches, step.emitted, len(step.accepted), step.unrecorded


def logp(step):
    return {path: p for path, p in zip(paths(step.nodes), step.nodes.logp, strict=True) if p is not None}


def paths(nodes):
    return [tuple(nodes.token[i] for i in nodes.path(node)) for node in range(len(nodes.token))]


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_replay_is_what_a_rerun_would_have_been(engine, changes, sampling):
    trace = record(engine, method="rasd", **sampling)
    settings = recorded_settings(trace).but(**changes)
    again = engine.generate(PROMPT, settings)
    assert again.tokens == trace.tokens
    steps = list(engine.replay(trace, settings))
    assert [essence(step) for step in steps] == [essence(step) for step in again.steps[1:]]
    assert sum(len(step.emitted) for step in steps) / len(steps) == pytest.approx(again.mean_generated_length)
    for mine, theirs in zip(steps, again.steps[1:], strict=True):
        assert logp(mine) == pytest.approx(logp(theirs), abs=1e-2)
        assert [(look.node, look.token[0]) for look in mine.looks] == [
            (look.node, look.token[0]) for look in theirs.looks
        ]
        for p, q in zip(mine.nodes.target_p, theirs.nodes.target_p, strict=True):
            assert p is None or p == pytest.approx(q, abs=1e-4)


def test_one_step_alone_is_that_step_of_the_replay(engine):
    trace = record(engine, method="rasd")
    settings = recorded_settings(trace).but(prune_k=2, draft_depth=1)
    for step in list(engine.replay(trace, settings))[::3]:
        assert essence(next(engine.replay(trace, settings, step.position))) == essence(step)


def test_a_replay_of_a_loaded_trace_needs_no_more_than_the_trace(engine, tmp_path):
    from restviz.trace import Trace

    trace = record(engine, method="rest")
    again = Trace.load(trace.save(tmp_path / "t.json.gz"))
    settings = recorded_settings(again)
    assert settings.method == "rest"
    assert [essence(s) for s in replay(engine, again, settings)] == [essence(s) for s in trace.steps[1:]]


def test_a_stopped_run_is_replayed_up_to_where_it_stopped(engine):
    run = engine.stream(PROMPT, Settings(method="rest", chat=False, n_min=1))
    for step in run:
        if step.index == 3:
            run.stop()
    steps = list(engine.replay(run.trace, recorded_settings(run.trace)))
    assert [token for step in steps for token in step.emitted] == run.trace.tokens[1:]


@pytest.mark.parametrize(
    ("changes", "position", "words"),
    [
        ({"temperature": 0.5}, None, "not the sampling"),
        ({"max_new_tokens": 5}, None, "not the sampling"),
        ({}, 10_000, "no step at position 10000"),
        ({}, 0, "no step at position 0"),
    ],
)
def test_what_would_change_the_text_is_refused(engine, changes, position, words):
    trace = record(engine, method="rest")
    with pytest.raises(SettingsError, match=words):
        next(engine.replay(trace, recorded_settings(trace).but(**changes), position))


def test_another_model_and_a_missing_draft_model_are_named(engine, tiny_engine):
    trace = record(engine, method="rest")
    with pytest.raises(MethodError, match="head"):
        next(tiny_engine.replay(trace, recorded_settings(trace).but(method="rasd")))
    trace.header.model = trace.header.model.model_copy(update={"name": "other-model"})  # not the target's own record
    with pytest.raises(SettingsError, match="of other-model"):
        next(engine.replay(trace, recorded_settings(trace)))


def test_a_question_about_a_run_just_made_needs_no_forward(engine, monkeypatch):
    trace = record(engine, method="rasd")
    settings = recorded_settings(trace).but(prune_k=2)
    with monkeypatch.context() as patch:
        patch.setattr(type(engine.target), "session", None)
        first = [next(engine.replay(trace, settings, step.position)) for step in trace.steps[1:]]
    record(engine, method="rest")
    engine.remembered = None
    again = [next(engine.replay(trace, settings, step.position)) for step in trace.steps[1:]]
    assert [essence(step) for step in first] == [essence(step) for step in again]
    for mine, theirs in zip(first, again, strict=True):
        assert logp(mine) == pytest.approx(logp(theirs), abs=1e-2)
