"""The live datastore against a built one over the same texts, its bound, and its past."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from corpora import CODE, store_of
from hypothesis import given, settings
from hypothesis import strategies as st

from restviz.datastore import LiveDatastore

texts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=6)
contexts = st.lists(st.lists(st.integers(-1, 3), max_size=12), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(texts, contexts, st.integers(1, 3), st.integers(0, 6), st.integers(1, 5))
def test_it_finds_what_a_built_datastore_finds(texts, contexts, n_min, more, length):
    live = LiveDatastore("fingerprint")
    for i, ids in enumerate(texts):
        live.add(ids, f"{i:04d}.txt")
    assert live.meta.tokens == sum(map(len, texts))
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder), texts, 4)
        for context in contexts:
            mine, theirs = (s.search(context, n_min + more, n_min, length) for s in (live, store))
            assert (mine.match_length, mine.hits, mine.rows.tolist()) == (
                theirs.match_length,
                theirs.hits,
                theirs.rows.tolist(),
            )
            mine, theirs = (s.next_tokens(context, n_min + more, n_min) for s in (live, store))
            assert (mine.hits, mine.ended, mine.tokens.tolist()) == (theirs.hits, theirs.ended, theirs.tokens.tolist())


def test_places(byte_tokenizer):
    live, ids = LiveDatastore("fingerprint"), byte_tokenizer.encode(CODE).ids
    live.add(ids, "the first answer")
    live.add(ids, "the second answer")
    places = live.locate(ids[-4:], byte_tokenizer)
    assert [place.path for place in places.locations] == ["the first answer", "the second answer"]
    assert all(place.line == 6 for place in places.locations)
    assert places.locations[1].match == byte_tokenizer.decode(ids[-4:])
    assert live.locate([], byte_tokenizer).total == live.locate([999], byte_tokenizer).total == 0


def test_beyond_its_bound_the_oldest_go():
    live = LiveDatastore("fingerprint", capacity=10)
    live.add([1, 2, 3], "a")
    live.add([4, 5, 6], "b")
    assert live.search([1, 2]).hits == 1
    live.add([7, 8, 9], "c")
    assert (live.search([1, 2]).hits, live.search([4, 5]).hits, live.search([8, 9]).hits) == (0, 1, 1)
    assert live.meta.tokens == 6
    live.add(list(range(20, 40)), "d")
    assert live.meta.tokens == 9
    assert live.search([38, 39]).hits == 1
    live.clear()
    assert (live.meta.tokens, live.meta.content, live.search([38, 39]).hits) == (0, "", 0)


def test_the_last_places_are_read_first():
    live = LiveDatastore("fingerprint")
    for token in (3, 4, 5):
        live.add([1, 2, token], str(token))
    hits = live.search([1, 2], cap=2)
    assert (hits.hits, hits.rows[:, 0].tolist()) == (3, [4, 5])


def test_its_past_can_be_asked():
    live = LiveDatastore("fingerprint", capacity=100)
    states = [live.meta.content]
    for token in (3, 4, 5):
        live.add([1, 2, token], str(token))
        states.append(live.meta.content)
    assert len(set(states)) == 4
    for hits, content in enumerate(states):
        past = live.at(content)
        assert (past.search([1, 2]).hits, past.meta.tokens, past.meta.content) == (hits, 3 * hits, content)
    live.add(list(range(10, 100)), "large")
    assert live.at(states[0]) is None
    assert live.at(live.meta.content).search([1, 2]).hits == live.search([1, 2]).hits == 2
    assert live.at("never") is None
    assert np.array_equal(live.at(live.meta.content).search([12]).rows, live.search([12]).rows)
