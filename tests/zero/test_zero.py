"""Every method on a stand-in for ZeroGPU: forked processes, and plain data between them."""

from __future__ import annotations

import os

import pytest
import spaces

from restviz import zero
from restviz.api import Engine, Settings
from restviz.drafters import METHODS
from restviz.drafters.assistant import load_assistant
from restviz.drafters.eagle import load_head
from restviz.errors import RestvizError
from restviz.settings import recorded_settings
from restviz.target.build import load_target
from restviz.train.head import new_head, write_head

PROMPT = "def add(a, b):\n    return a"


@pytest.fixture(scope="module")
def plain(tiny_engine, tiny_folder, tmp_path_factory):
    """An engine with everything, as it is before there is a GPU: nothing was measured."""
    import numpy as np

    target = load_target.__wrapped__(str(tiny_folder), "cpu", "fp32", "exact", probe=False)
    assert target.environment.bit_exact is None
    folder = tmp_path_factory.mktemp("head")
    write_head(folder, new_head(target.model.config, target.info.vocab_size), np.arange(target.info.vocab_size), {})
    head, assistant = load_head(str(folder), target.model, "tiny"), load_assistant(str(tiny_folder), target)
    return Engine(target, tiny_engine.datastores, head, assistant)


@pytest.fixture(autouse=True)
def one_thread():
    """As in a forked process: the sums of a draft model depend on it, and with them near-ties in its tree."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def engine(plain):
    plain.target.environment.bit_exact = None
    return zero.ZeroEngine(plain, spaces.GPU)


def asked(method, **more):
    return Settings(method=method, chat=False, max_new_tokens=24, **more)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_one_that_is_made_without(plain, engine, method):
    expected = plain.generate(PROMPT, asked(method))
    before = len(spaces.calls)
    run = engine.stream(PROMPT, asked(method))
    steps = list(run)
    assert len(spaces.calls) == before + 1, "one call for the whole run"
    assert spaces.calls[-1][0] != os.getpid()
    assert [step.emitted for step in steps] == [step.emitted for step in expected.steps]
    assert [step.nodes for step in steps] == [step.nodes for step in expected.steps]
    assert run.trace.text == expected.text
    assert run.trace.finish == expected.finish
    assert run.trace.token_text == expected.token_text
    assert run.trace.header.environment.bit_exact is True, "measured in the call"
    assert run.trace.header.environment.forward_ms
    assert all(step.times.forward > 0 for step in steps)


def test_nothing_of_a_run_is_kept_and_what_if_is_computed_anew(plain, engine):
    trace = engine.generate(PROMPT, asked("rasd"))
    assert engine.remembered is None
    other = recorded_settings(trace).but(prune_k=1)
    expected = [step.nodes for step in plain.replay(plain.generate(PROMPT, asked("rasd")), other)]
    assert [step.nodes for step in engine.replay(trace, other)] == expected
    position = trace.steps[2].position
    assert next(engine.replay(trace, other, position)).position == position
    assert engine.check(trace).differs == []


def test_what_the_user_can_mend_keeps_its_sentence(engine):
    trace = engine.generate(PROMPT, asked("rest"))
    with pytest.raises(RestvizError, match="no step at position 999"):
        next(engine.replay(trace, asked("rest"), 999))
    with pytest.raises(RestvizError, match="prompt is empty"):
        engine.stream(" ", asked("rest"))


def test_stop_ends_the_process_and_the_next_run_is_whole(engine):
    run = engine.stream(PROMPT, asked("autoregressive"))
    for _ in run:
        run.stop()
    assert run.trace.finish.reason == "stopped"
    assert 1 <= len(run.trace.steps) < 24
    assert len(engine.generate(PROMPT, asked("autoregressive")).tokens) == 24


def test_a_run_that_is_left_frees_the_engine(engine):
    for _ in engine.stream(PROMPT, asked("autoregressive")):
        break
    assert not engine.lock.locked()


def test_when_the_time_is_up_the_steps_stay_and_a_sentence_says_so(engine, monkeypatch):
    monkeypatch.setenv("SPACES_FAKE_YIELDS", "4")
    run = engine.stream(PROMPT, asked("autoregressive"))
    with pytest.raises(RestvizError, match=r"GPU task aborted.*a call gets 21 seconds\. What is on the page stays"):
        list(run)
    assert len(run.trace.steps) == 3
    assert run.trace.finish.reason == "failed"
    monkeypatch.undo()
    assert len(engine.generate(PROMPT, asked("autoregressive")).tokens) == 24


def test_no_quota_is_told_without_markup(engine, monkeypatch):
    monkeypatch.setenv("SPACES_FAKE_QUOTA", "0")
    with pytest.raises(RestvizError, match=r"exceeded your GPU quota \(21s requested vs\. 0s left\)\)"):
        engine.generate(PROMPT, asked("rest"))


def test_a_call_asks_for_the_time_that_it_may_need():
    short, long = ({"settings": Settings(max_new_tokens=n).model_dump()} for n in (10, 1000))
    assert zero.seconds("run", short) < zero.seconds("run", long) < zero.seconds("run", long) * 2 <= 2 * zero.LONGEST
    assert zero.seconds("replay", long) == zero.STARTUP
