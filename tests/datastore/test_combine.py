"""Merging: the shards of several, each document still knowing its source."""

from __future__ import annotations

import pytest
from corpora import store_of, word_tokenizer

from restviz.datastore import Datastore, DatastoreError, combine


@pytest.fixture
def two(tmp_path):
    return [store_of(tmp_path / name, [[i, i + 1, i + 2]] * 2, 20) for name, i in (("a", 1), ("b", 2))]


def test_a_merged_datastore_finds_what_both_find(tmp_path, two):
    meta = combine([store.path for store in two], tmp_path / "both", "both")
    both = Datastore.open(tmp_path / "both")
    both.verify()
    assert (meta.name, meta.tokens, meta.documents, len(meta.shards), len(meta.sources)) == ("both", 12, 4, 2, 2)
    assert both.search([2, 3], n_max=2).hits == sum(store.search([2, 3], n_max=2).hits for store in two) == 4
    assert [int(shard.docs["source"][0]) for shard in both.shards] == [0, 1]
    assert both.locate([3, 4], word_tokenizer(20)).locations[0].path == "0000.txt"
    for store in two:
        store.verify()


def test_what_cannot_be_merged(tmp_path, two):
    other = store_of(tmp_path / "c", [[1]], 30)
    with pytest.raises(DatastoreError, match="were built for different tokenizers"):
        combine([two[0].path, other.path], tmp_path / "both", "both")
    with pytest.raises(DatastoreError, match="is there already"):
        combine([two[0].path], two[1].path, "both")
    (two[0].path / "shard-000" / "docs").unlink()
    with pytest.raises(DatastoreError, match="is incomplete"):
        combine([store.path for store in two], tmp_path / "both", "both")
