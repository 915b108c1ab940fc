from __future__ import annotations

import pytest

from restviz.settings import Settings
from restviz.trace import Trace

SAMPLED = {"temperature": 0.9, "top_p": 0.9, "seed": 3}


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_every_token_of_a_run_is_the_targets_choice(tiny_engine, sampling):
    trace = tiny_engine.generate("def add(", Settings(max_new_tokens=30, chat=False, n_min=1, **sampling))
    check = tiny_engine.check(trace)
    assert (check.tokens, check.differs, check.gap) == (len(trace.tokens), [], [])


def test_a_token_that_is_not_the_targets_choice_is_found_with_its_gap(tiny_engine, tmp_path):
    trace = tiny_engine.generate("def add(", Settings(max_new_tokens=12, chat=False, method="autoregressive"))
    step = trace.steps[-1]
    best, second = step.looks[0].token[:2]
    assert step.bonus == best
    step.bonus = second
    check = tiny_engine.check(trace)
    assert check.differs == [11]
    assert 0 < check.gap[0] < 100
    trace.check = check
    assert Trace.load(trace.save(tmp_path / "t.json")).check == check


def test_a_token_that_sampling_rules_out_has_no_gap(tiny_engine):
    trace = tiny_engine.generate("def add(", Settings(max_new_tokens=5, chat=False, temperature=1.0, top_k=2))
    step = trace.steps[-1]
    step.bonus = next(token for token in range(300) if token not in step.looks[-1].token)
    assert tiny_engine.check(trace).gap[-1] is None


def test_texts_that_part_are_told_from_texts_that_were_cut(tiny_engine):
    settings = Settings(max_new_tokens=8, chat=False)
    whole = tiny_engine.generate("def add(", settings)
    assert not whole.differs(whole)
    run = tiny_engine.stream("def add(", settings)
    for _ in run:
        run.stop()
    assert not run.trace.differs(whole)
    assert whole.differs(tiny_engine.generate("def add(", settings.but(max_new_tokens=7)))
    assert whole.differs(tiny_engine.generate("class Counter:", settings))
