"""What must hold on a real model: SmolLM2-135M-Instruct with the default datastore."""

from __future__ import annotations

import pytest
import torch

from restviz.bench.prompts import all_prompts, chosen
from restviz.drafters.eagle import HEADS
from restviz.settings import Settings, recorded_settings
from restviz.target.build import load_plain

SAMPLED = {"temperature": 0.8, "top_p": 0.95, "seed": 1}
LENGTH = 64


def both(engine, prompt, chat, **settings):
    """Traces of autoregressive decoding and of REST."""
    base = Settings(chat=chat, method="autoregressive", **settings)
    return engine.generate(prompt, base), engine.generate(prompt, base.but(method="rest"))


@pytest.fixture(scope="module")
def stock():
    """The same weights in plain transformers."""
    return load_plain("default", "fp32", "cpu")


def test_packed_float32_is_exact_to_the_last_bit(smol_fp32):
    assert smol_fp32.target.environment.bit_exact or not torch.backends.mkldnn.is_available()


def test_what_if_is_what_a_rerun_gives(smol_fp32):
    prompt, chat = all_prompts()[0]
    trace = smol_fp32.generate(prompt, Settings(method="rasd", chat=chat, max_new_tokens=40))
    other = recorded_settings(trace).but(prune_k=3, budget=24, draft_depth=2)
    again = smol_fp32.generate(prompt, other)
    assert again.tokens == trace.tokens
    for step in again.steps[1:]:
        mine = next(smol_fp32.replay(trace, other, step.position))
        assert (mine.nodes.token, mine.nodes.parent, mine.nodes.fate) == (
            step.nodes.token,
            step.nodes.parent,
            step.nodes.fate,
        )
        assert mine.emitted == step.emitted


@pytest.mark.parametrize(("prompt", "chat"), all_prompts())
def test_greedy_text_is_autoregressive_and_transformers_text_in_fp32(smol_fp32, stock, prompt, chat):
    plain, rest = both(smol_fp32, prompt, chat, max_new_tokens=LENGTH)
    assert rest.tokens == plain.tokens
    assert rest.forwards <= plain.forwards
    ids = torch.tensor([plain.header.prompt_ids])
    theirs = stock.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=LENGTH, do_sample=False)
    assert theirs[0, ids.shape[1] :].tolist() == plain.tokens


@pytest.mark.parametrize(("prompt", "chat"), all_prompts())
def test_sampled_text_is_autoregressive_text_in_fp32(smol_fp32, prompt, chat):
    plain, rest = both(smol_fp32, prompt, chat, max_new_tokens=LENGTH, **SAMPLED)
    assert rest.tokens == plain.tokens


def check_same(engine, plain, other):
    """To the last bit where the probe says so; elsewhere a difference must start at a near-tie of the target's."""
    if other.tokens == plain.tokens:
        return
    assert not engine.target.environment.bit_exact
    at = next(i for i, (a, b) in enumerate(zip(plain.tokens, other.tokens, strict=False)) if a != b)
    before, after = ([look for step in trace.steps for look in step.looks][at] for trace in (plain, other))
    p, q = (dict(zip(look.token, look.p, strict=True)) for look in (before, after))
    # both runs saw the same distribution up to rounding: what flipped is a draw, not the model
    assert all(abs(p[token] - q.get(token, 0)) < 0.05 for token in before.token[:3])


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("prompt", "chat"), all_prompts()[::4])
def test_text_is_autoregressive_text_in_bf16(smol_bf16, prompt, chat, sampling):
    plain, rest = both(smol_bf16, prompt, chat, max_new_tokens=LENGTH, budget=40, **sampling)
    check_same(smol_bf16, plain, rest)


DRAFTED = (
    {"method": "pld"},
    {"method": "eagle"},
    {"method": "rasd"},
    {"method": "rasd", "retrievers": "datastore", "fused_cap": 0},
    {"method": "rasd", "retrievers": "context", "prune_k": 0},
)


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("prompt", "chat"), all_prompts()[1::6])
def test_every_method_writes_the_autoregressive_text_in_fp32(smol_fp32, prompt, chat, sampling):
    base = Settings(chat=chat, method="autoregressive", max_new_tokens=32, **sampling)
    plain = smol_fp32.generate(prompt, base).tokens
    for changes in DRAFTED:
        assert smol_fp32.generate(prompt, base.but(**changes)).tokens == plain, changes


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_every_method_writes_the_autoregressive_text_in_bf16(smol_bf16, sampling):
    prompt, chat = all_prompts()[2]
    base = Settings(chat=chat, method="autoregressive", max_new_tokens=24, **sampling)
    plain = smol_bf16.generate(prompt, base)
    for changes in DRAFTED:
        check_same(smol_bf16, plain, smol_bf16.generate(prompt, base.but(**changes)))


def test_the_shipped_head_is_small_and_gains_two_tokens_a_step_on_code(smol_fp32):
    """EAGLE alone with 32 nodes and depth 5 on HumanEval, whose prompts were not trained on: M of at least 2."""
    folder = HEADS / smol_fp32.head.name
    assert sum(file.stat().st_size for file in folder.iterdir()) < 15e6
    settings = Settings(method="eagle", draft_depth=5, draft_nodes=32, max_new_tokens=96)
    runs = [smol_fp32.generate(prompt, settings.but(chat=chat)) for prompt, chat in chosen("humaneval")[:4]]
    assert sum(run.mean_generated_length for run in runs) / len(runs) >= 2.0


def test_rest_accepts_drafts_on_code(smol_fp32):
    prompt, chat = all_prompts()[0]
    _, rest = both(smol_fp32, prompt, chat, max_new_tokens=LENGTH, budget=64)
    assert rest.mean_generated_length > 1.2
    assert any(step.matches[0].length >= 4 for step in rest.steps[1:])
    assert max(sum(fate in ("accepted", "rejected") for fate in step.nodes.fate) for step in rest.steps) > 40
