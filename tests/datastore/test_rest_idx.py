"""REST's own indices: read as they are written, refused when they are not whole."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from corpora import word_tokenizer

from restviz.datastore import Datastore, DatastoreError, Recipe, Source, build
from restviz.datastore.rest_idx import chunks


def write(path, *documents: list[int]) -> None:
    """An index as REST's code writes it: a chunk a list, with the suffix array of its tokens."""
    with open(path, "wb") as file:
        for ids in documents:
            order = sorted(range(len(ids)), key=lambda i: ids[i:])
            for part, dtype in ((ids, "<u2"), (order, "<i4")):
                data = np.array(part, dtype=dtype).tobytes()
                file.write(struct.pack("<I", len(data)) + data)


def imported(path, out, shard_tokens=10**6, size=300) -> Datastore:
    recipe = Recipe("old", "t", "d", [Source(f"file:{path}", "l", "a", extract="rest-idx")])
    build(recipe, word_tokenizer(size), out, shard_tokens=shard_tokens, progress=False)
    return Datastore.open(out)


def test_an_index_becomes_a_datastore(tmp_path):
    chance = np.random.default_rng(0)
    documents = [chance.integers(0, 300, n).tolist() for n in (500, 80)]
    write(tmp_path / "a.idx", *documents)
    store = imported(tmp_path / "a.idx", tmp_path / "store")
    assert (store.meta.tokens, store.meta.documents) == (580, 2)
    assert store.shards[0].tokens.tolist() == [*documents[0], 65_535, *documents[1], 65_535]
    assert store.search(documents[1][10:14], n_max=4, n_min=4).rows[0].tolist() == documents[1][14:24]
    order = sorted(range(500), key=lambda i: documents[0][i:])
    mine = [i for i in store.shards[0].suffixes.tolist() if i < 500]
    # where two suffixes of the chunk differ before its end, they stand as in REST's own array
    assert [i for i in mine if i < 480] == [i for i in order if i < 480]


def test_a_chunk_larger_than_a_shard_is_cut(tmp_path):
    write(tmp_path / "a.idx", list(range(250)))
    store = imported(tmp_path / "a.idx", tmp_path / "store", shard_tokens=100)
    assert [shard["tokens"] for shard in store.meta.shards] == [100, 100, 50]


def test_the_wrong_tokenizer_and_damaged_files_are_refused(tmp_path):
    write(tmp_path / "a.idx", [1, 2, 299])
    with pytest.raises(
        DatastoreError, match=r"holds token 299 and this tokenizer has 200 ids: name the tokenizer that"
    ):
        imported(tmp_path / "a.idx", tmp_path / "store", size=200)
    whole = (tmp_path / "a.idx").read_bytes()
    for cut in (1, 4, 8, 12, len(whole) - 1):
        (tmp_path / "a.idx").write_bytes(whole[:cut])
        with pytest.raises(DatastoreError, match="is cut short, or no index of REST"):
            chunks(tmp_path / "a.idx")
    (tmp_path / "a.idx").write_bytes(struct.pack("<I", 4) + b"abcd" + struct.pack("<I", 4) + b"abcd")
    with pytest.raises(DatastoreError, match="in chunk 1 the suffix array has 4 bytes for 4 bytes of tokens"):
        chunks(tmp_path / "a.idx")
    (tmp_path / "a.idx").write_bytes(b"")
    with pytest.raises(DatastoreError, match="it is empty"):
        chunks(tmp_path / "a.idx")
