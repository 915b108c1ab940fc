"""The dynamic draft tree against EAGLE-2's rule written out, over a model that makes its distributions from paths."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from restviz.drafters import Context
from restviz.drafters.base import Distribution
from restviz.drafters.model import DraftRows, ModelDrafter
from restviz.tree import Source


class PathModel:
    """Logits after a path: random numbers seeded by the path and nothing else."""

    taps = ()

    def __init__(self, vocabulary=7, ids=None):
        self.vocabulary, self.ids = vocabulary, ids
        self.forwards = []

    def after(self, path) -> np.ndarray:
        return np.random.default_rng([5, *path]).normal(size=self.vocabulary).astype(np.float32) * 2

    def begin(self, context):
        self.paths = []
        return torch.from_numpy(self.after(()))

    def expand(self, tokens, parents):
        self.forwards.append(len(tokens))
        new = [((self.paths[p] if p >= 0 else ()) + (t,)) for t, p in zip(tokens, parents, strict=True)]
        self.paths += new
        return torch.from_numpy(np.stack([self.after(path) for path in new]))


def reference(model, k, depth, budget) -> dict[tuple[int, ...], float]:
    def children(path, score):
        logits = model.after(path).astype(np.float64)
        logp = logits - np.log(np.exp(logits).sum())
        best = heapq.nlargest(k, range(len(logp)), key=lambda i: logp[i])
        return {(*path, i if model.ids is None else int(model.ids[i])): score + logp[i] for i in best}

    level = children((), 0.0)
    pool = dict(level)
    for _ in range(depth):
        frontier = heapq.nlargest(k, level, key=level.get)
        level = {}
        for path in frontier:
            level |= children(path, pool[path])
        pool |= level
    return {path: pool[path] for path in heapq.nlargest(budget, pool, key=pool.get)}


def propose(drafter, max_depth=100):
    return drafter.propose(Context(np.array([3, 4], dtype=np.int32), max_depth))


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(0, 4), st.integers(1, 40), st.booleans())
def test_tree_is_eagle_2s(k, depth, budget, cut):
    model = PathModel(ids=np.array([2, 3, 5, 7, 11, 13, 17]) if cut else None)
    draft = propose(ModelDrafter(model, k, depth, budget))
    expected = reference(model, k, depth, budget)
    tree = draft.tree
    assert tree.token[0] == 4
    assert set(tree.paths()[1:]) == set(expected)
    assert dict(zip(tree.paths()[1:], tree.logp[1:], strict=True)) == pytest.approx(expected, abs=1e-4)
    assert set(tree.source[1:].tolist()) == {int(Source.MODEL)}
    assert draft.kept.all()
    assert all(n <= min(k, min(k, 7) ** (level + 1), budget) for level, n in enumerate(model.forwards))


def test_nodes_that_cannot_have_descendants_in_the_tree_are_not_expanded():
    model = PathModel()
    tree = propose(ModelDrafter(model, 6, 5, 8)).tree
    inner = set(tree.parent[1:].tolist()) - {0}
    assert len(inner) <= sum(model.forwards) < 6 * 5


def test_first_step_distribution_is_in_the_targets_ids():
    ids = np.array([2, 3, 5, 7, 11, 13, 17])
    model = PathModel(ids=ids)
    first = propose(ModelDrafter(model, 3, 1, 5)).first
    p = np.exp(model.after(())) / np.exp(model.after(())).sum()
    token, best = first.top(3)
    order = np.argsort(-p)[:3]
    assert token.tolist() == ids[order].tolist()
    assert best == pytest.approx(p[order], rel=1e-4)
    assert first.of(np.array([4, 2, 17, 99])) == pytest.approx([0, p[0], p[6], 0], rel=1e-4)
    assert first.rank(ids).tolist() == (1 + (p[None] > p[:, None]).sum(1)).tolist()
    assert first.rank(np.array([4, 99])).tolist() == [8, 8]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.booleans())
def test_ranks_are_places_in_the_order_of_the_likeliest(weights, part):
    p = np.array(weights, dtype=np.float32) / sum(weights)
    first = Distribution(p, ids=np.arange(len(p)) * 2 if part else None)
    assert first.rank(first.top(len(p))[0]).tolist() == list(range(1, len(p) + 1))


def test_tree_is_no_deeper_than_what_is_left_to_generate():
    assert propose(ModelDrafter(PathModel(), 3, 4, 40), max_depth=2).tree.depth.max() == 2
    assert len(propose(ModelDrafter(PathModel(), 3, 4, 40), max_depth=0).tree) == 1


def test_rows_see_their_ancestors():
    rows = DraftRows()
    sees, depth = rows.add([-1, -1])
    assert sees.tolist() == [[True, False], [False, True]]
    sees, depth = rows.add([1, 0])
    assert sees.tolist() == [[False, True, True, False], [True, False, False, True]]
    assert depth.tolist() == [2, 2]


@pytest.mark.parametrize("bad", [{"k": 0}, {"depth": -1}, {"budget": 0}])
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="at least"):
        ModelDrafter(PathModel(), **bad)
