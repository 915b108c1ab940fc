"""Every TokenTree operation against an obvious reference: a dict from token path to weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restviz.tree import (
    Source,
    TokenTree,
    from_nodes,
    from_paths,
    from_sorted_continuations,
    fuse,
    root_only,
    top_of_sorted_continuations,
)

ROOT = 7
path = st.lists(st.integers(0, 3), max_size=5).map(tuple)
weighted = st.lists(st.tuples(path, st.integers(1, 9)), max_size=20)
trees = st.builds(
    lambda paths, source: from_paths(ROOT, [p for p, _ in paths], [w for _, w in paths], source),
    weighted,
    st.sampled_from([Source.DATASTORE, Source.CONTEXT, Source.MODEL]),
)


def counts(paths: list[tuple[tuple[int, ...], int]]) -> dict[tuple[int, ...], int]:
    """The reference trie: weight of every prefix."""
    result = {(): 0}
    for tokens, weight in paths:
        for depth in range(len(tokens) + 1):
            result[tokens[:depth]] = result.get(tokens[:depth], 0) + weight
    return result


def as_dict(tree: TokenTree) -> dict[tuple[int, ...], int]:
    return dict(zip(tree.paths(), tree.count.tolist(), strict=True))


def rows_of(paths: list[tuple[int, ...]]) -> np.ndarray:
    """Sorted rows as a suffix array gives them: where a document ends, the row sorts last and is filled with -1."""
    longest = max(map(len, paths), default=0)
    rows = np.full((len(paths), longest), -1, dtype=np.int32)
    for row, tokens in enumerate(sorted(paths, key=lambda p: [*p, 99])):
        rows[row, : len(tokens)] = tokens
    return rows


def check(tree: TokenTree) -> None:
    """What every tree promises."""
    dtypes = {"token": "i4", "parent": "i4", "depth": "i2", "source": "u4", "count": "i8", "logp": "f4"}
    for name, dtype in dtypes.items():
        assert getattr(tree, name).dtype == np.dtype(dtype), name
        assert getattr(tree, name).shape == (len(tree),), name
    paths = tree.paths()
    assert len(set(paths)) == len(paths), "two children of a node carry the same token"
    assert all(p[:-1] in set(paths) for p in paths), "not closed under prefixes"
    assert paths == sorted(paths, key=lambda p: (len(p), p)), "not in level order"
    assert tree.depth.tolist() == [len(p) for p in paths]
    assert tree.parent[0] == -1
    assert (tree.parent[1:] < np.arange(1, len(tree))).all()
    assert (tree.count[1:] <= tree.count[tree.parent[1:]]).all()


@given(weighted)
def test_from_paths_is_the_trie_of_all_prefixes(paths):
    tree = from_paths(ROOT, [p for p, _ in paths], [w for _, w in paths])
    check(tree)
    assert as_dict(tree) == counts(paths)
    assert tree.token[0] == ROOT
    assert tree.source[0] == 0
    assert (tree.source[1:] == Source.DATASTORE).all()
    assert np.isnan(tree.logp).all()


@given(st.data(), weighted)
def test_the_same_paths_give_equal_trees_in_any_order(data, paths):
    shuffled = data.draw(st.permutations(paths))
    in_order, in_another = (from_paths(ROOT, [p for p, _ in x], [w for _, w in x]) for x in (paths, shuffled))
    assert in_order == in_another


@given(st.lists(path, max_size=20), st.booleans(), st.data())
def test_from_sorted_continuations(paths, use_weights, data):
    rows = rows_of(paths)
    size = len(paths)
    weights = data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)) if use_weights else [1] * size
    tree = from_sorted_continuations(ROOT, rows, np.array(weights, dtype=np.int64) if use_weights else None)
    check(tree)
    ordered = [tuple(t for t in row if t >= 0) for row in rows.tolist()]
    assert as_dict(tree) == counts(list(zip(ordered, weights, strict=True)))


@given(st.lists(path, max_size=20), st.integers(0, 30), st.booleans())
def test_top_of_sorted_continuations_is_the_top_of_the_whole_tree(paths, budget, use_weights):
    rows = rows_of(paths)
    weights = np.arange(1, len(rows) + 1) if use_weights else None
    whole = from_sorted_continuations(ROOT, rows, weights)
    tree, left_out = top_of_sorted_continuations(ROOT, rows, weights, budget=budget)
    assert tree == whole.top(budget)
    assert len(tree) + left_out == len(whole)


def test_root_only():
    tree = root_only(ROOT)
    check(tree)
    assert tree.paths() == [()]
    assert tree.ancestor_mask().tolist() == [[True]]
    assert tree.top(5) == tree.keep(np.zeros(1)) == tree


@given(trees)
def test_path_and_children_agree_with_paths(tree):
    paths = tree.paths()
    for node in range(len(tree)):
        assert tuple(tree.token[tree.path(node)].tolist()) == paths[node]
        for token, child in tree.children(node).items():
            assert paths[child] == (*paths[node], token)
    assert sum(len(tree.children(node)) for node in range(len(tree))) == len(tree) - 1


@given(trees)
def test_ancestor_mask(tree):
    mask = tree.ancestor_mask()
    assert mask.dtype == bool
    assert mask.shape == (len(tree), len(tree))
    paths = tree.paths()
    for i, mine in enumerate(paths):
        for j, other in enumerate(paths):
            assert mask[i, j] == (mine[: len(other)] == other)


@given(trees, st.data())
def test_keep_drops_what_hangs_on_dropped_nodes(tree, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(tree), max_size=len(tree))))
    before = mask.copy()
    kept = tree.keep(mask)
    check(kept)
    assert (mask == before).all(), "the caller's mask was changed"
    wanted = dict(zip(tree.paths(), mask.tolist(), strict=True)) | {(): True}
    closed = {p for p in wanted if all(wanted[p[:d]] for d in range(len(p) + 1))}
    assert as_dict(kept) == {p: c for p, c in as_dict(tree).items() if p in closed}


@given(trees, st.integers(-1, 30))
def test_top_uses_the_whole_budget_on_the_heaviest_nodes(tree, budget):
    top = tree.top(budget)
    check(top)
    assert len(top) - 1 == min(max(budget, 0), len(tree) - 1)
    dropped = set(tree.paths()) - set(top.paths())
    if dropped and len(top) > 1:
        assert max(as_dict(tree)[p] for p in dropped) <= top.count[1:].min()


@given(trees, st.data())
def test_heaviest_by_any_key_is_closed_full_and_nested(tree, data):
    size = len(tree)
    key = np.array(data.draw(st.lists(st.one_of(st.floats(-9, 9), st.just(np.nan)), min_size=size, max_size=size)))
    smaller = tree.heaviest(0, key)
    for budget in range(len(tree)):
        chosen = tree.heaviest(budget, key)
        assert chosen[0]
        assert chosen.sum() == 1 + budget
        assert chosen[tree.parent[1:]][chosen[1:]].all(), "not closed under ancestors"
        assert (chosen >= smaller).all(), "a larger budget dropped a node"
        smaller = chosen


@given(trees, trees)
def test_fuse_is_the_union(a, b):
    fused = fuse(a, b)
    check(fused)
    in_a, in_b, both = as_dict(a), as_dict(b), as_dict(fused)
    assert both == {p: in_a.get(p, 0) + in_b.get(p, 0) for p in in_a.keys() | in_b.keys()}
    flags = dict.fromkeys(both, 0)
    for tree in (a, b):
        for p, flag in zip(tree.paths(), tree.source.tolist(), strict=True):
            flags[p] |= flag
    assert dict(zip(fused.paths(), fused.source.tolist(), strict=True)) == flags


@given(trees, trees)
def test_fuse_is_commutative(a, b):
    assert fuse(a, b) == fuse(b, a)


@given(trees, trees, trees)
def test_fuse_is_associative(a, b, c):
    assert fuse(fuse(a, b), c) == fuse(a, fuse(b, c))


@given(trees)
def test_fuse_is_idempotent_up_to_counts(tree):
    fused = fuse(tree, tree)
    assert fused.paths() == tree.paths()
    assert (fused.source == tree.source).all()
    assert (fused.count == 2 * tree.count).all()
    assert fuse(tree, root_only(ROOT)) == tree


def test_fuse_keeps_the_log_probability_that_is_there():
    a = from_paths(ROOT, [(1, 2)], source=Source.DATASTORE)
    b = from_paths(ROOT, [(1, 3)], source=Source.MODEL)
    b.logp[:] = [np.nan, -0.5, -1.5]
    for fused in (fuse(a, b), fuse(b, a)):
        logp = dict(zip(fused.paths(), fused.logp.tolist(), strict=True))
        assert logp[(1,)] == -0.5
        assert logp[(1, 3)] == -1.5
        assert np.isnan(logp[(1, 2)])


def test_fuse_refuses_different_roots():
    with pytest.raises(ValueError, match=r"different roots \(7 and 8\)"):
        fuse(root_only(7), root_only(8))


@given(trees, trees)
def test_equality(a, b):
    same = as_dict(a) == as_dict(b) and a.source.tolist() == b.source.tolist()
    assert (a == b) == same
    assert a != "a tree"


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5).map(tuple), max_size=12), st.randoms())
def test_from_nodes_takes_nodes_in_any_order_in_which_parents_come_first(paths, chance):
    closed = sorted({path[:i] for path in paths for i in range(1, len(path) + 1)})
    order = sorted(closed, key=lambda path: (len(path), chance.random()))
    place = {(): 0} | {path: i + 1 for i, path in enumerate(order)}
    tree = from_nodes(7, [p[-1] for p in order], [place[p[:-1]] for p in order], [-float(place[p]) for p in order])
    check(tree)
    assert set(tree.paths()[1:]) == set(closed)
    assert [-place[path] for path in tree.paths()[1:]] == tree.logp[1:].tolist()
    assert set(tree.source[1:].tolist()) <= {int(Source.MODEL)}
