"""RASD's pruning and fusion, over scripted drafters."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restviz.drafters import Context, Distribution, Draft, Drafter, RasdDrafter, Verdict
from restviz.drafters.rasd import prune
from restviz.tree import Source, from_nodes, from_paths

VOCABULARY = 6
paths = st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4).map(tuple), min_size=1, max_size=8)
probabilities = st.permutations(range(1, VOCABULARY + 1)).map(lambda w: np.array(w, dtype=np.float32) / sum(w))


class Scripted(Drafter):
    def __init__(self, draft):
        self.draft, self.budget = draft, len(draft.tree) - 1

    def propose(self, context):
        return self.draft


def retrieved(some, source=Source.DATASTORE, kept=None):
    draft = Draft.of(from_paths(9, some, source=source))
    if kept is not None:
        draft.verdict[~draft.tree.heaviest(kept)] = Verdict.PRUNED_BUDGET
    return Scripted(draft)


def model(some, p):
    closed = sorted({path[:i] for path in some for i in range(1, len(path) + 1)}, key=lambda path: (len(path), path))
    place = {(): 0} | {path: i + 1 for i, path in enumerate(closed)}
    parents = [place[path[:-1]] for path in closed]
    logp = [float(sum(np.log(p[token]) for token in path)) for path in closed]
    return Scripted(Draft.of(from_nodes(9, [path[-1] for path in closed], parents, logp), first=Distribution(p)))


def run(*args, **options):
    return RasdDrafter(*args, **options).propose(Context(np.array([1, 9], dtype=np.int32), 50))


def likely(p, k):
    return set(np.argsort(-p, kind="stable")[:k].tolist())


@given(paths, paths, paths, probabilities, st.integers(1, VOCABULARY))
def test_fused_is_the_union_of_the_model_tree_and_what_pruning_leaves(drafted, stored, repeated, p, k):
    retrievers = [retrieved(stored), retrieved(repeated, Source.CONTEXT)]
    draft = run(model(drafted, p), retrievers, k=k)
    fused = draft.tree.keep(draft.kept)
    sets = [set(part.draft.tree.paths()) for part in (model(drafted, p), *retrievers)]
    assert set(fused.paths()) >= sets[0]
    left = [{path for path in paths if not path or path[0] in likely(p, k)} for paths in sets[1:]]
    assert set(fused.paths()) == sets[0] | left[0] | left[1]
    for node, path in enumerate(draft.tree.paths()):
        if draft.verdict[node] == Verdict.PRUNED_FIRST_TOKEN:
            assert path[0] not in likely(p, k)
        if path and path[0] in likely(p, k):
            assert draft.verdict[node] == Verdict.KEPT
        flags = (Source.MODEL, Source.DATASTORE, Source.CONTEXT)
        assert [bool(draft.tree.source[node] & flag) for flag in flags] == [bool(path) and path in s for s in sets]


@given(paths, paths, probabilities)
def test_retrieving_while_the_draft_model_runs_changes_nothing(drafted, stored, p):
    alone, together = (run(model(drafted, p), [retrieved(stored)], k=2, overlap=overlap) for overlap in (False, True))
    assert alone.tree == together.tree
    assert alone.verdict.tolist() == together.verdict.tolist()
    assert alone.times.keys() == together.times.keys()


def test_retrieval_runs_beside_the_draft_model():
    began, drafted, found = threading.Event(), model([(2,)], np.full(VOCABULARY, 1 / VOCABULARY)), retrieved([(1,)])

    class Drafting(Scripted):
        def propose(self, context):
            began.set()
            return self.draft

    class Retrieving(Scripted):
        def propose(self, context):
            assert began.wait(10), "it came before the draft model"
            return self.draft

    assert run(Drafting(drafted.draft), [Retrieving(found.draft)], overlap=True).kept.all()


@given(paths, probabilities, st.integers(1, VOCABULARY))
def test_pruning_looks_at_first_tokens_only(stored, p, k):
    tree = from_paths(9, stored)
    left = prune(tree, likely(p, k))
    assert left.paths() == [path for path in tree.paths() if not path or path[0] in likely(p, k)]


@given(paths, paths, probabilities)
def test_without_pruning_everything_stays(drafted, stored, p):
    assert run(model(drafted, p), [retrieved(stored)], k=None).kept.all()


@given(paths, paths, probabilities, st.integers(1, 12), st.integers(1, VOCABULARY))
def test_cap_keeps_a_closed_tree_of_so_many_nodes(drafted, stored, p, cap, k):
    whole = run(model(drafted, p), [retrieved(stored)], k=k)
    capped = run(model(drafted, p), [retrieved(stored)], k=k, cap=cap)
    fused = capped.tree.keep(capped.kept)
    assert len(fused) - 1 == min(cap, len(whole.tree.keep(whole.kept)) - 1)
    assert set(fused.paths()) <= set(whole.tree.keep(whole.kept).paths())
    assert capped.tree == whole.tree


@given(paths, paths, paths, probabilities, st.integers(1, VOCABULARY))
def test_greedy_accepts_at_least_as_many_tokens_as_the_model_tree_alone(drafted, stored, truths, p, k):
    """Whatever the target's greedy text is, the path into the fused tree is at least as long."""
    alone = set(model(drafted, p).draft.tree.paths())
    draft = run(model(drafted, p), [retrieved(stored)], k=k)
    fused = set(draft.tree.keep(draft.kept).paths())
    for truth in truths:
        accepted = [max(i for i in range(len(truth) + 1) if truth[:i] in tree) for tree in (fused, alone)]
        assert accepted[0] >= accepted[1]


def test_what_the_retriever_dropped_is_told_apart_from_what_pruning_dropped():
    p = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02], dtype=np.float32)
    draft = run(model([(0,)], p), [retrieved([(0, 1), (0, 1), (5, 2), (5, 2), (4, 4)], kept=4)], k=2)
    verdicts = dict(zip(draft.tree.paths(), draft.verdict.tolist(), strict=True))
    kept, first, budget = Verdict.KEPT, Verdict.PRUNED_FIRST_TOKEN, Verdict.PRUNED_BUDGET
    assert verdicts == {(): kept, (0,): kept, (0, 1): kept, (5,): first, (5, 2): first, (4,): budget, (4, 4): budget}
    assert draft.tested == 2


@given(paths, paths, paths, probabilities, st.integers(1, VOCABULARY), st.integers(1, 12), st.integers(0, 6))
def test_each_node_says_which_trees_it_was_in_and_what_dropped_it(drafted, stored, repeated, p, k, cap, kept):
    retrievers = [retrieved(stored, kept=kept), retrieved(repeated, Source.CONTEXT)]
    draft = run(model(drafted, p), retrievers, k=k, cap=cap)
    trees = {Source.MODEL: model(drafted, p).draft}
    trees |= {
        flag: retriever.draft for flag, retriever in zip((Source.DATASTORE, Source.CONTEXT), retrievers, strict=True)
    }
    cut = {flag: set(one.tree.keep(one.kept).paths()) for flag, one in trees.items()}
    fused = set(draft.tree.keep(draft.kept).paths())
    for node, path in list(enumerate(draft.tree.paths()))[1:]:
        flags = sum(flag for flag, some in cut.items() if path in some)
        stays = path in cut[Source.MODEL] or path[0] in likely(p, k)
        expected = (
            Verdict.PRUNED_BUDGET
            if not flags
            else Verdict.PRUNED_FIRST_TOKEN
            if not stays
            else Verdict.KEPT
            if path in fused
            else Verdict.PRUNED_CAP
        )
        assert draft.verdict[node] == expected
        assert draft.tree.source[node] == (flags or Source.DATASTORE)


def test_a_node_of_the_model_tree_stays_in_a_branch_that_is_pruned():
    p = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02], dtype=np.float32)
    draft = run(model([(0,), (1,)], p), [retrieved([(1, 2)])], k=1)
    assert set(draft.tree.keep(draft.kept).paths()) == {(), (0,), (1,)}


def test_rasd_needs_a_retriever():
    with pytest.raises(ValueError, match="at least one retriever"):
        RasdDrafter(model([(0,)], np.ones(6, dtype=np.float32) / 6), [])
