"""Prompt lookup against its rule written out naively."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restviz.drafters import Context, LookupDrafter
from restviz.drafters.lookup import LookupIndex
from restviz.tree import Source

texts = st.lists(st.integers(0, 2), min_size=1, max_size=40)


def naive(text: list[int], n_max: int, n_min: int) -> tuple[int, list[int]]:
    for n in range(min(n_max, len(text)), n_min - 1, -1):
        found = [i + n for i in range(len(text) - n) if text[i : i + n] == text[-n:]]
        if found:
            return n, found
    return 0, []


def propose(drafter, text, max_depth=100):
    return drafter.propose(Context(np.array(text, dtype=np.int32), max_depth))


@given(texts, st.integers(1, 4), st.data())
def test_search_finds_the_longest_suffix_however_the_text_came(text, n_max, data):
    n_min = data.draw(st.integers(1, n_max))
    cut = data.draw(st.integers(0, len(text)))
    index = LookupIndex(n_max)
    index.extend(text[:cut])
    index.extend(text[cut:])
    assert index.search(n_min) == naive(text, n_max, n_min)


@given(texts, st.integers(1, 6))
def test_tree_is_the_trie_of_what_followed(text, length):
    draft = propose(LookupDrafter(length=length), text)
    n, found = naive(text, 3, 1)
    expected = Counter()
    for i in found:
        following = text[i : i + length]
        expected.update(tuple(following[:depth]) for depth in range(1, len(following) + 1))
    assert dict(zip(draft.tree.paths()[1:], draft.tree.count[1:].tolist(), strict=True)) == dict(expected)
    assert set(draft.tree.source[1:].tolist()) <= {int(Source.CONTEXT)}
    assert draft.kept.all()
    (match,) = draft.matches
    assert (match.retriever, match.length, match.hits, match.sampled) == ("context", n, len(found), len(found))


def test_appending_a_token_costs_one_entry_for_each_n():
    index = LookupIndex(3)
    for count in range(1, 50):
        index.extend([count % 5])
        assert sum(map(len, index.ends.values())) == sum(max(count - n, 0) for n in (1, 2, 3))


def test_budget_cap_and_depth_limit_the_tree():
    text = [*range(1, 9), 0, *range(9, 17), 0, *range(1, 5), 0]
    draft = propose(LookupDrafter(n_max=1, budget=3), text)
    assert draft.kept.sum() == 4
    assert set(draft.tree.children(0)) == {1, 9}
    assert set(propose(LookupDrafter(n_max=1, cap=1), text).tree.children(0)) == {1}
    assert propose(LookupDrafter(n_max=1), text, max_depth=2).tree.depth.max() == 2
    assert len(propose(LookupDrafter(), text, max_depth=0).tree) == 1


@pytest.mark.parametrize("bad", [{"n_min": 0}, {"n_min": 4}, {"length": 0}, {"budget": 0}, {"cap": 0}])
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="must"):
        LookupDrafter(**bad)
