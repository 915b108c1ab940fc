"""RestDrafter against the paper's rule written out with dictionaries."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from restviz.bench.retrieval import measure
from restviz.datastore import Datastore, build, recipe_from_files
from restviz.drafters.base import Context, Verdict
from restviz.drafters.rest import RestDrafter
from restviz.tree import Source

VOCABULARY = 4


def store_of(folder: Path, documents: list[list[int]], vocabulary: int = VOCABULARY) -> Datastore:
    source = folder / "corpus"
    source.mkdir(parents=True)
    for i, ids in enumerate(documents):
        (source / f"{i:04d}.txt").write_text(" ".join(map(str, ids)))
    tokenizer = Tokenizer(models.WordLevel({str(i): i for i in range(vocabulary)}, unk_token="0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    build(recipe_from_files([str(source)]), tokenizer, folder / "store", progress=False)
    return Datastore.open(folder / "store")


def context(tokens: list[int], max_depth: int = 100) -> Context:
    return Context(tokens=np.array(tokens, dtype=np.int32), max_depth=max_depth)


def reference(corpora, tokens, n_max, n_min, length) -> tuple[int, Counter]:
    """Match length, and how many continuations have each prefix."""
    for n in range(min(n_max, len(tokens)), n_min - 1, -1):
        query = tokens[len(tokens) - n :]
        trie, hits = Counter(), 0
        for ids in (ids for documents in corpora for ids in documents):
            for i in range(len(ids) - n + 1):
                if ids[i : i + n] == query:
                    hits += 1
                    following = ids[i + n : i + n + length]
                    trie.update(tuple(following[:depth]) for depth in range(1, len(following) + 1))
        if hits:
            return n, trie
    return 0, Counter()


documents = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=4)
text = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(documents, min_size=1, max_size=2),
    st.lists(text, min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(0, 12),
    st.integers(0, 4),
    st.integers(0, 6),
)
def test_the_papers_rule(corpora, texts, n_min, length, budget, shown, max_depth):
    with tempfile.TemporaryDirectory() as folder:
        stores = [store_of(Path(folder) / str(i), docs) for i, docs in enumerate(corpora)]
        drafter = RestDrafter(stores, 8, n_min, length, budget, shown=shown)
        for tokens in texts:
            draft = drafter.propose(context(tokens, max_depth))
            assert draft.tree == drafter.propose(context(tokens, max_depth)).tree, "not deterministic"
            n, trie = reference(corpora, tokens, 8, n_min, min(length, max_depth))
            nodes = dict(zip(draft.tree.paths()[1:], draft.tree.count.tolist()[1:], strict=True))
            kept = {p for p, k in zip(draft.tree.paths()[1:], draft.kept.tolist()[1:], strict=True) if k}
            assert draft.tree.token[0] == tokens[-1]
            assert draft.kept[0]
            assert all(trie[p] == count for p, count in nodes.items())
            assert len(kept) == min(budget, len(trie)), "the budget is not used up"
            assert len(nodes) == min(budget + shown, len(trie))
            assert len(nodes) + draft.unrecorded == len(trie)
            assert all(p[:-1] in kept or len(p) == 1 for p in kept), "not closed under ancestors"
            dropped = [trie[p] for p in trie if p not in kept]
            assert not kept or not dropped or min(trie[p] for p in kept) >= max(dropped)
            assert set(draft.verdict.tolist()) <= {Verdict.KEPT, Verdict.PRUNED_BUDGET}
            alone = [reference([docs], tokens, n, n, length)[1] if n else () for docs in corpora]
            for path, source in zip(draft.tree.paths()[1:], draft.tree.source[1:].tolist(), strict=True):
                from_stores = [Source.datastore(i) for i, found in enumerate(alone) if path in found]
                assert source == np.bitwise_or.reduce(from_stores), "a node must know its datastores"
            if max_depth:
                assert max(match.length for match in draft.matches) == n


def test_the_draft_is_never_deeper_than_what_is_left_to_generate(tmp_path):
    drafter = RestDrafter(store_of(tmp_path, [[0, 1, 2, 3, 0, 1, 2]]))
    depths = [int(drafter.propose(context([0, 1], depth)).tree.depth.max()) for depth in (0, 1, 3, 100)]
    assert depths == [0, 1, 3, 5]


def test_evidence(tmp_path):
    store = store_of(tmp_path, [[1, 2, i % 3] for i in range(30)])
    drafter = RestDrafter(store, cap=10)
    draft = drafter.propose(context([3, 1, 2]))
    (match,) = draft.matches
    assert (match.retriever, match.length, match.hits, match.sampled) == ("corpus", 2, 30, 10)
    assert draft.tree.count.sum() == 60, "the sample stands for all hits, at the root and one level below"
    assert 0 < draft.times["retrieve"] < 1000
    (info,) = drafter.datastores
    assert (info.name, info.fingerprint, info.tokens) == ("corpus", store.meta.content, 90)


def test_nothing_matches(tmp_path):
    draft = RestDrafter(store_of(tmp_path, [[1, 2]])).propose(context([3, 3]))
    assert (len(draft.tree), draft.unrecorded, draft.matches[0].length) == (1, 0, 0)


def test_only_the_datastore_with_the_longest_match_contributes(tmp_path):
    short, long = store_of(tmp_path / "a", [[2, 3, 0]]), store_of(tmp_path / "b", [[1, 2, 3, 1]])
    draft = RestDrafter([short, long]).propose(context([1, 2, 3]))
    assert [match.length for match in draft.matches] == [2, 3]
    assert draft.tree.paths() == [(), (1,)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_min": 0}, "Suffix lengths must satisfy 1 ≤ n_min ≤ n_max, not n_min = 0, n_max = 16"),
        ({"n_min": 3, "n_max": 2}, "n_min = 3, n_max = 2"),
        ({"length": 0}, "length must be at least 1, not 0"),
        ({"budget": -1}, "budget must be at least 0, not -1"),
        ({"cap": 0}, "cap must be at least 1, not 0"),
        ({"shown": -1}, "shown must be at least 0, not -1"),
    ],
)
def test_parameters_out_of_range(tmp_path, parameters, message):
    store = store_of(tmp_path, [[1, 2]])
    with pytest.raises(ValueError, match=message):
        RestDrafter(store, **parameters)


def test_datastores_that_do_not_fit(tmp_path):
    with pytest.raises(ValueError, match="at least one datastore"):
        RestDrafter([])
    with pytest.raises(ValueError, match="different tokenizers"):
        RestDrafter([store_of(tmp_path / "a", [[1]]), store_of(tmp_path / "b", [[1]], vocabulary=9)])


def test_the_benchmark_counts_what_the_tree_holds(tmp_path):
    store = store_of(tmp_path, [[0, 1, 2, 3, 0, 1, 2]])
    right, half, nothing = [2, 3, 0, 1, 2, *[0] * 5], [2, 3, 1, *[0] * 7], [0] * 10
    contexts = [
        (np.array(tokens, dtype=np.int32), ahead)
        for tokens, ahead in (([0, 1], right), ([0, 1], half), ([3, 3], nothing))
    ]
    summary, times = measure(store, contexts)
    assert (summary["accepted"], summary["no_match"], summary["contexts"]) == (7 / 3, 1 / 3, 3)
    assert {part: len(row) for part, row in times.items()} == dict.fromkeys(("search", "tree", "mask", "total"), 3)
    sums = np.add(np.add(times["search"], times["tree"]), times["mask"])
    assert np.allclose(sums, times["total"], atol=0.2)
