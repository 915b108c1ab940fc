"""Corpora for the tests of this folder: a piece of code, and datastores made from lists of token ids."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers

from restviz.datastore import Datastore, build, recipe_from_files

CODE = """def add(a, b):
    # cœur, Ünïcode, 数学, 𝄞
    return a + b

def sub(a, b):
    return a - b
"""


def word_tokenizer(size: int) -> Tokenizer:
    """Ids 0 … size-1; the text of id i is the number i, words are separated by spaces."""
    tokenizer = Tokenizer(models.WordLevel({str(i): i for i in range(size)}, unk_token="0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def store_of(folder: Path, documents: list[list[int]], vocab_size: int, shard_tokens: int = 10**6) -> Datastore:
    """A datastore with these documents in this order, one file each."""
    source = folder / "corpus"
    source.mkdir(parents=True)
    for i, ids in enumerate(documents):
        (source / f"{i:04d}.txt").write_text(" ".join(map(str, ids)))
    tokenizer = word_tokenizer(vocab_size)
    build(recipe_from_files([str(source)]), tokenizer, folder / "store", shard_tokens=shard_tokens, progress=False)
    return Datastore.open(folder / "store")
