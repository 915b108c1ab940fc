from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from restviz.target.attention import exact_attention
from restviz.target.cache import TreeCache
from restviz.target.sampling import Sampler, nucleus
from restviz.tree import from_paths, root_only

PROMPT = [5, 80, 81, 7, 90]


def test_commit_compacts_the_accepted_rows_in_place():
    cache = TreeCache(layers=2, capacity=12)

    def rows(*values):
        return torch.tensor(values, dtype=torch.float32).view(1, 1, -1, 1)

    for layer in range(2):
        cache.update(rows(0, 1, 2), rows(0, 1, 2), layer)
    cache.commit([0, 1, 2])
    storage = cache.layers[0].keys.data_ptr()
    for layer in range(2):
        keys, _ = cache.update(rows(10, 11, 12, 13, 14), rows(10, 11, 12, 13, 14), layer)
    assert keys.flatten().tolist() == [0, 1, 2, 10, 11, 12, 13, 14]
    cache.commit([0, 2, 4])
    keys, values = cache.update(rows(20), rows(20), 1)
    assert keys.flatten().tolist() == values.flatten().tolist() == [0, 1, 2, 10, 12, 14, 20]
    assert cache.get_seq_length() == 6
    assert cache.layers[0].keys.data_ptr() == storage


def test_the_cache_keeps_wider_numbers_when_asked():
    cache = TreeCache(layers=1, capacity=4, dtype=torch.float64)
    keys, _ = cache.update(torch.ones(1, 1, 1, 2).bfloat16(), torch.ones(1, 1, 1, 2).bfloat16(), 0)
    assert keys.dtype == torch.float64


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_tree_forward_equals_token_by_token_forwards(tiny, seed):
    """Also after a commit: the compacted cache must serve as if the path had been fed one by one."""
    rng = np.random.default_rng(seed)
    tree = from_paths(9, [rng.integers(0, 300, rng.integers(1, 5)).tolist() for _ in range(6)])
    leaf = int(rng.integers(1, len(tree)))
    session, alone = tiny.session(64), tiny.session(64)
    assert torch.equal(session.prefill(PROMPT), alone.prefill(PROMPT))
    together = session.forward(tree)
    session.commit([0, *tree.path(leaf)])
    for node in [0, *tree.path(leaf)]:
        single = alone.forward(root_only(int(tree.token[node])))
        alone.commit([0])
        torch.testing.assert_close(together[node], single[0], rtol=1e-4, atol=1e-4)
    after, expected = session.forward(root_only(77)), alone.forward(root_only(77))
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-4)
    assert session.length == alone.length == len(PROMPT) + 1 + tree.depth[leaf]


@pytest.mark.parametrize("attention", ["exact", "fast"])
def test_both_attentions_agree(tiny_folder, tiny, attention):
    from restviz.target.build import load_target

    other = load_target.__wrapped__(str(tiny_folder), "cpu", "fp32", attention)
    tree = from_paths(9, [[1, 2], [1, 3], [4]])
    results = []
    for target in (tiny, other):
        session = target.session(700)
        session.prefill(PROMPT * 30)
        results.append(session.forward(tree))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_a_long_prefill_equals_a_short_one(tiny, monkeypatch):
    prompt = PROMPT * 30
    whole = tiny.session(200).prefill(prompt)
    monkeypatch.setattr("restviz.target.model.PREFILL_ROWS", 16)
    torch.testing.assert_close(tiny.session(200).prefill(prompt), whole, rtol=1e-4, atol=1e-4)


def test_exact_attention_is_softmax_attention_with_shared_heads():
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, 6, 4, 8, generator=generator)
    key, value = (torch.randn(1, 2, 11, 8, generator=generator) for _ in range(2))
    visible = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
    mask = torch.zeros(4, 4, dtype=torch.float64).masked_fill_(~visible, float("-inf"))[None, None]
    ours, _ = exact_attention(torch.nn.Module(), query, key.double(), value.double(), mask, scaling=0.3)
    whole = torch.cat([torch.ones(4, 7, dtype=torch.bool), visible], dim=1)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1), attn_mask=whole, scale=0.3
    )
    torch.testing.assert_close(ours, theirs.transpose(1, 2), rtol=1e-4, atol=1e-4)


def test_a_draw_depends_on_seed_and_position_only():
    logits = torch.randn(500, generator=torch.Generator().manual_seed(1))
    sampler = Sampler(temperature=1.0, seed=3)
    first = [sampler.draw(logits, position).token for position in range(20)]
    assert (
        first
        == [Sampler(temperature=1.0, seed=3).draw(logits, position).token for position in reversed(range(20))][::-1]
    )
    assert first != [Sampler(temperature=1.0, seed=4).draw(logits, position).token for position in range(20)]
    assert len(set(first)) > 5


def test_ties_go_to_the_lowest_id():
    logits = torch.zeros(100)
    logits[[17, 40, 99]] = 2.0
    assert Sampler().draw(logits.bfloat16(), 0).token == 17


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.99))
def test_the_nucleus_is_transformers_nucleus(seed, top_p):
    from transformers import TopPLogitsWarper

    logits = torch.randn(300, generator=torch.Generator().manual_seed(seed)) * 3
    warped = torch.softmax(TopPLogitsWarper(top_p)(None, logits[None]), dim=-1)[0].numpy()
    ours = nucleus(torch.softmax(logits, dim=-1).numpy(), top_p)
    # the last token may fall either way when the mass before it is top_p up to rounding
    assert abs((ours > 0).sum() - (warped > 0).sum()) <= 1
    np.testing.assert_allclose(ours, warped, atol=warped[warped > 0].min() * 2)
    assert ours.sum() == pytest.approx(1, abs=1e-5)


def test_warpers_cut_what_is_drawn():
    logits = torch.arange(50).float() / 5
    draws = {Sampler(temperature=2.0, top_k=3, seed=s).draw(logits, 0).token for s in range(60)}
    assert draws == {47, 48, 49}
    cold = {Sampler(temperature=0.01, seed=s).draw(logits, 0).token for s in range(20)}
    assert cold == {49}
