"""Search against brute force on small corpora with tiny alphabets, where matches are long and many."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from corpora import CODE, store_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restviz.datastore import Datastore, Hits, build, merge, recipe_from_files
from restviz.tree import from_paths, from_sorted_continuations

documents = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=6)
contexts = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=6)  # 3 occurs nowhere
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def occurrences(documents: list[list[int]], query: list[int]) -> list[tuple[int, int]]:
    """`(document, position after the query)` of every place."""
    n = len(query)
    return [(d, i + n) for d, ids in enumerate(documents) for i in range(len(ids) - n + 1) if ids[i : i + n] == query]


def brute_force(documents, context, n_max, n_min, length) -> tuple[int, list[list[int]]]:
    """Match length and all continuations: REST as it is written."""
    for n in range(min(n_max, len(context)), n_min - 1, -1):
        if places := occurrences(documents, context[len(context) - n :]):
            rows = [documents[d][i : i + length] for d, i in places]
            return n, sorted((row + [-1] * (length - len(row)) for row in rows), key=sort_key)
    return 0, []


def sort_key(row):
    return [99 if token < 0 else token for token in row]


@quick
@given(documents, contexts, st.integers(1, 3), st.integers(0, 6), st.integers(1, 5), st.sampled_from([4, 20, 1000]))
def test_search_equals_brute_force(documents, contexts, n_min, more, length, shard_tokens):
    n_max = n_min + more
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder), documents, 4, shard_tokens)
        if all(len(ids) >= shard_tokens for ids in documents):
            assert len(store.shards) == len(documents)
        for context in contexts:
            n, rows = brute_force(documents, context, n_max, n_min, length)
            hits = store.search(np.array(context, dtype=np.int32), n_max, n_min, length)
            assert (hits.match_length, hits.hits, hits.weights) == (n, len(rows), None)
            assert hits.rows.dtype == np.int32
            assert hits.rows.shape == (len(rows), length)
            assert hits.rows.tolist() == rows
            reference = from_paths(1, [[t for t in row if t >= 0] for row in rows])
            assert from_sorted_continuations(1, hits.rows) == reference
            following = store.next_tokens(context, n_max, n_min)
            first = [row[0] for row in rows]
            assert (following.match_length, following.hits) == (n, len(rows))
            assert following.ended == first.count(-1)
            table = dict(zip(following.tokens.tolist(), following.counts.tolist(), strict=True))
            assert table == {token: first.count(token) for token in set(first) - {-1}}
            assert (np.diff(following.counts) <= 0).all()


@quick
@given(documents, st.integers(1, 40), st.sampled_from([6, 1000]))
def test_beyond_the_cap_an_even_sample_stands_for_all_hits(documents, cap, shard_tokens):
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder), documents, 4, shard_tokens)
        context = documents[0][-1:]
        full = store.search(context, 1, 1, 4, cap=10**6)
        hits = store.search(context, 1, 1, 4, cap=cap)
        again = store.search(context, 1, 1, 4, cap=cap)
        assert (hits.rows == again.rows).all()
        assert hits.hits == full.hits
        assert len(hits.rows) == min(cap, full.hits)
        assert hits.rows.tolist() == sorted(hits.rows.tolist(), key=sort_key)
        if full.hits <= cap:
            assert hits.weights is None
        else:
            assert hits.weights.dtype == np.int64
            assert hits.weights.sum() == full.hits
            assert hits.weights.max() - hits.weights.min() <= 1
            # a sample of sorted rows is off by less than the weight of two rows for any first token
            for token in (-1, 0, 1, 2):
                estimate = hits.weights[hits.rows[:, 0] == token].sum()
                if len(store.shards) == 1:
                    assert abs(estimate - (full.rows[:, 0] == token).sum()) <= 2 * hits.weights.max()


def test_the_sample_is_not_the_lexicographically_first(tmp_path):
    store = store_of(tmp_path, [[9, i % 8] for i in range(800)], 10)
    hits = store.search([9], 1, 1, 1, cap=80)
    assert np.bincount(hits.rows[:, 0], hits.weights, minlength=8).tolist() == [100] * 8


def test_neither_match_nor_continuation_crosses_a_document(tmp_path):
    store = store_of(tmp_path, [[1, 2, 3], [4, 5, 6]], 10)
    assert store.search([3, 4]).match_length == 0
    hits = store.search([1, 2])
    assert hits.rows.tolist() == [[3] + [-1] * 9]
    end = store.search([2, 3])
    assert (end.match_length, end.hits) == (2, 1)
    assert end.rows.tolist() == [[-1] * 10]
    assert len(from_sorted_continuations(3, end.rows)) == 1


@pytest.mark.parametrize("foreign", [-1, 10, 65535, 65536, 10**6])
def test_ids_outside_the_vocabulary_match_nothing(tmp_path, foreign):
    store = store_of(tmp_path, [[1, 2, 3, 4]], 10)
    assert store.search([foreign]).match_length == 0
    assert store.search([1, 2, foreign], n_min=1).match_length == 0
    assert store.search([foreign, 1, 2]).match_length == 2
    assert store.locate([1, foreign], None).total == 0


def test_short_and_empty_contexts(tmp_path):
    store = store_of(tmp_path, [[1, 2, 3, 4]], 10)
    assert store.search([]).match_length == 0
    assert store.search([1]).match_length == 0, "n_min is 2 unless asked otherwise"
    assert store.search([1], n_min=1).match_length == 1
    assert store.next_tokens([]).match_length == 0
    assert store.locate([], None).total == 0


@pytest.mark.parametrize(("vocab_size", "width"), [(65_535, 2), (65_536, 3), (65_537, 3), (70_000, 3)])
def test_vocabularies_around_65536(tmp_path, vocab_size, width):
    """Ids are whole at every size, the last id is no separator, and byte order is token order."""
    last = vocab_size - 1
    ids = [0, 255, 256, 65_533, 65_534, last, last, 65_280, 1, last]
    store = store_of(tmp_path, [ids, [0, 255, last], [0, 255, 3]], vocab_size)
    assert store.meta.width == width
    shard = store.shards[0]
    assert shard.read(np.array([0]), len(ids))[0].tolist() == ids
    hits = store.search([0, 255])
    assert hits.rows[:, 0].tolist() == [3, 256, last]
    assert hits.rows[1].tolist() == [*ids[2:], -1, -1]
    assert store.search([last, last]).rows[0, :3].tolist() == [65_280, 1, last]
    assert store.search([1, last]).rows[0].tolist() == [-1] * 10
    starts = shard.suffixes.astype(np.int64)
    suffixes = [shard.read(np.array([s]), 12)[0].tolist() for s in starts]
    assert [[1 << 30 if t < 0 else t for t in s] for s in suffixes] == sorted(
        [1 << 30 if t < 0 else t for t in s] for s in suffixes
    )


@quick
@given(documents, st.integers(1, 3), st.sampled_from([6, 1000]))
def test_the_most_frequent_sequences(documents, n, shard_tokens):
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder), documents, 4, shard_tokens)
        counts = Counter(tuple(ids[i : i + n]) for ids in documents for i in range(len(ids) - n + 1))
        expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        assert store.frequent(n, 100) == [(list(ids), count) for ids, count in expected]


def test_the_most_frequent_sequences_of_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("restviz.datastore.search.SAMPLE", 50)
    chance = np.random.default_rng(0)
    store = store_of(tmp_path, [[7, 8, 9] * 40, *chance.integers(0, 6, (30, 30)).tolist()], 10)
    assert store.frequent(3, 3) == [([7, 8, 9], 40), ([8, 9, 7], 39), ([9, 7, 8], 39)]


def test_merge_keeps_the_longest_match_only():
    def hits(n, rows, weights=None):
        rows = np.array(rows, dtype=np.int32)
        return Hits(n, len(rows) if weights is None else sum(weights), rows, weights and np.array(weights))

    assert merge([hits(2, [[1, 2]]), hits(3, [[5, 6]])]).rows.tolist() == [[5, 6]]
    both = merge([hits(2, [[1, 2], [4, -1]], [3, 4]), hits(2, [[1, 0], [4, 4]])])
    assert both.rows.tolist() == [[1, 0], [1, 2], [4, 4], [4, -1]]
    assert both.weights.tolist() == [1, 3, 1, 4]
    assert both.hits == 9


def test_merge_counts_a_datastore_as_often_as_its_weight():
    one = Hits(2, 2, np.array([[1, 2], [4, 4]], dtype=np.int32))
    two = Hits(2, 7, np.array([[1, 2]], dtype=np.int32), np.array([7]))
    both = merge([one, two], [3, 1])
    assert both.rows.tolist() == [[1, 2], [1, 2], [4, 4]]
    assert sorted(both.weights.tolist()) == [3, 3, 7]
    assert (both.hits, both.corpus.tolist()) == (13, [0, 1, 0])
    assert merge([one, two], [1, 1]).weights.sum() == merge([one, two]).weights.sum() == 9
    assert merge([one], [2]).weights.tolist() == [2, 2]


def test_locate_finds_every_place_with_its_line(tmp_path, byte_tokenizer, corpus):
    build(recipe_from_files([str(corpus)]), byte_tokenizer, tmp_path / "store", progress=False)
    store = Datastore.open(tmp_path / "store")
    last = byte_tokenizer.encode(CODE).ids[-4:]
    places = store.locate(last, byte_tokenizer)
    assert places.total == len(places.locations) == 2
    for place, name in zip(places.locations, ["one.py", "two.py"], strict=True):
        assert (place.path, place.line, place.record) == (name, 6, 0)
        text = (corpus / name).read_text(encoding="utf-8")
        assert place.match == byte_tokenizer.decode(last)
        assert place.match.rstrip("\n") in text.split("\n")[5]
        assert place.before + place.match + place.after in text
    limited = store.locate(last, byte_tokenizer, limit=1)
    assert (limited.total, len(limited.locations)) == (2, 1)


@quick
@given(st.text(alphabet="a\né数𝄞 ", min_size=1, max_size=60), st.data())
def test_the_line_shown_contains_the_match(byte_tokenizer, text, data):
    if not text.strip():
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "text.txt"
        file.write_bytes(text.encode())
        build(recipe_from_files([str(file)]), byte_tokenizer, Path(folder) / "store", progress=False)
        store = Datastore.open(Path(folder) / "store")
        ids = byte_tokenizer.encode(text).ids
        start = data.draw(st.integers(0, len(ids) - 1))
        stop = data.draw(st.integers(start + 1, len(ids)))
        places = store.locate(ids[start:stop], byte_tokenizer, limit=1000, window=8)
        assert places.total == len(occurrences([ids], ids[start:stop]))
        assert start in {place.offset for place in places.locations}
        lines = text.split("\n")
        for place in places.locations:
            assert ids[place.offset : place.offset + stop - start] == ids[start:stop]
            # characters cut by the edges of the window are left out, those cut by the match go to its neighbour
            assert place.before + place.match + place.after in text
            rest = "\n".join(lines[place.line - 1 :])
            assert 0 <= rest.find(place.match) <= len(lines[place.line - 1])
