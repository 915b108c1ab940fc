"""Build a datastore: documents in, a directory in the layout of `restviz.datastore.format` out.

Three stages, each with a progress bar: tokenise (all shards' streams are written), sort (the suffix array of each
shard, from pydivsufsort over the stream's bytes, keeping the positions where a token starts) and write (hash what was
written).  A stream is sorted from its file, so the peak memory is that of sorting one shard: with w-byte tokens
w + 4w bytes a token for divsufsort, and a block at a time for the rest.

The directory appears when it is complete; an interrupted build leaves a `.partial` neighbour that is never opened and
that the next build removes.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from restviz.assets import appears_whole, cache_dir
from restviz.datastore.format import (
    DatastoreError,
    Meta,
    check_arrays,
    describe_arrays,
    from_bytes,
    read_meta,
    separator,
    shard_folder,
    to_bytes,
    token_width,
    vocabulary,
    vocabulary_fingerprint,
    write_meta,
    write_stamp,
)
from restviz.datastore.search import Datastore
from restviz.datastore.sources import Document, Recipe, load_recipe, read_documents, signature

SHARD_TOKENS = 64_000_000
BATCH_CHARACTERS = 1_000_000
BLOCK = 1 << 22  # suffixes filtered at a time


def default_path(name: str, fingerprint: str) -> Path:
    """Where the datastore `name` for the vocabulary `fingerprint` lives in the user's cache."""
    return cache_dir() / "datastores" / f"{name}-{fingerprint[:12]}"


def open_or_build(name: str, tokenizer: Tokenizer, progress: bool = True, tokenizer_name: str = "") -> Datastore:
    """The datastore `name` for this tokenizer: a datastore's directory, a name in the user's cache, or a recipe.

    A recipe that is not in the cache is built first.  What is there is opened as it is, without a look at its sources:
    `build` is what brings it up to date.  Raises DatastoreError or AssetError.
    """
    fingerprint = vocabulary_fingerprint(tokenizer)
    if (Path(name) / "meta.json").exists():
        return Datastore.open(name, fingerprint)
    path = default_path(Path(name).stem if name.endswith(".toml") else name, fingerprint)
    if not path.exists():
        recipe = load_recipe(name)
        logging.getLogger("restviz").info("building the datastore %s, once", name)
        build(recipe, tokenizer, path, progress=progress, tokenizer_name=tokenizer_name)
    return Datastore.open(path, fingerprint)


def build(
    recipe: Recipe,
    tokenizer: Tokenizer,
    path: Path,
    *,
    shard_tokens: int = SHARD_TOKENS,
    progress: bool = True,
    tokenizer_name: str = "",
) -> bool:
    """Build the datastore of `recipe` in the directory `path`; False when it is there and up to date already.

    Up to date: same recipe, vocabulary and parameters, and the same source files (names, sizes, modification times).
    A new shard begins when one holds `shard_tokens` tokens or more.
    Raises DatastoreError when there is no text, or when `path` is something else than a datastore.
    """
    files = recipe.files()
    fingerprint = vocabulary_fingerprint(tokenizer)
    built_from = signature(recipe, files, fingerprint, shard_tokens)
    if path.exists() and not (path / "meta.json").exists():
        raise DatastoreError(f"{path} is there already and is not a datastore: choose another place.")
    with appears_whole(path, fresh=lambda: _is_fresh(path, built_from)) as partial:
        if partial is None:
            return False
        meta = Meta(
            name=recipe.name,
            title=recipe.title,
            description=recipe.description,
            tokenizer=fingerprint,
            tokenizer_name=tokenizer_name,
            vocab_size=len(vocabulary(tokenizer)),
            width=0,
            tokens=0,
            documents=0,
            skipped=0,
            sources=[
                {"asset": s.asset, "licence": s.licence, "attribution": s.attribution, "documents": 0, "tokens": 0}
                for s in recipe.sources
            ],
            built_from=built_from,
            parameters={"shard_tokens": shard_tokens, "split": recipe.split, **_versions()},
        )
        meta.width = token_width(meta.vocab_size)
        shards = _tokenise(recipe, files, _plain(tokenizer), partial, meta, shard_tokens, progress)
        if not meta.tokens:
            raise DatastoreError(f"There is no text in the {len(files)} files of {recipe.name}.")
        with tqdm(total=meta.tokens, desc="sorting", unit="token", unit_scale=True, disable=not progress) as bar:
            for index in range(shards):
                bar.update(_sort(shard_folder(partial, index), meta))
        with tqdm(total=shards, desc="writing", unit="shard", disable=not progress) as bar:
            for index in range(shards):
                meta.shards.append(describe_arrays(shard_folder(partial, index)))
                bar.update()
        write_meta(partial, meta)
        write_stamp(partial, meta)
    return True


class _ShardWriter:
    """Appends documents to a shard's `tokens`, `docs` and `paths`."""

    def __init__(self, folder: Path, width: int):
        folder.mkdir(parents=True)
        self.width, self.position, self.path, self.path_start = width, 0, None, 0
        names = ("tokens", "docs", "paths")
        self.tokens, self.docs, self.paths = (open(folder / name, "wb") for name in names)  # noqa: SIM115, see close

    def add(self, document: Document, ids: np.ndarray) -> None:
        if document.path != self.path:
            self.path, self.path_start = document.path, self.paths.tell()
            self.paths.write(document.path.encode() + b"\0")
        self.docs.write(struct.pack("<4I", self.position, document.record, document.source, self.path_start))
        self.tokens.write(to_bytes(ids, self.width) + to_bytes([separator(self.width)], self.width))
        self.position += len(ids) + 1

    def close(self) -> None:
        for file in (self.tokens, self.docs, self.paths):
            file.close()


def _tokenise(
    recipe: Recipe,
    files: list[tuple[int, str, Path]],
    tokenizer: Tokenizer,
    root: Path,
    meta: Meta,
    shard_tokens: int,
    progress: bool,
) -> int:
    """Write the token streams and document tables, count into `meta`; the number of shards."""
    size = sum(path.stat().st_size for _, _, path in files)
    shards, writer = 0, None
    try:
        with tqdm(total=size, desc="tokenising", unit="B", unit_scale=True, disable=not progress) as bar:
            for batch in _batches(recipe, files, meta, bar):
                encodings = tokenizer.encode_batch_fast([document.text for document in batch], add_special_tokens=False)
                for i, document in enumerate(batch):
                    ids = np.array(encodings[i].ids, dtype=np.int64)
                    encodings[i] = None  # an encoding is many times the size of its ids
                    if writer is None or writer.position >= shard_tokens:
                        if writer is not None:
                            writer.close()
                        writer, shards = _ShardWriter(shard_folder(root, shards), meta.width), shards + 1
                    writer.add(document, ids)
                    meta.tokens += len(ids)
                    meta.documents += 1
                    meta.sources[document.source]["tokens"] += len(ids)
                    meta.sources[document.source]["documents"] += 1
    finally:
        if writer is not None:
            writer.close()
    return shards


def _batches(recipe: Recipe, files: list[tuple[int, str, Path]], meta: Meta, bar: tqdm) -> Iterator[list[Document]]:
    """The text files as documents, about BATCH_CHARACTERS at a time."""
    batch, characters = [], 0
    for source, name, path in files:
        documents = meta.documents + len(batch)
        for document in read_documents(recipe, source, name, path):
            batch.append(document)
            characters += len(document.text)
            if characters >= BATCH_CHARACTERS:
                yield batch
                batch, characters = [], 0
        bar.update(path.stat().st_size)
        meta.skipped += meta.documents + len(batch) == documents
    if batch:
        yield batch


def _sort(folder: Path, meta: Meta) -> int:
    """Write `suffixes` and `buckets` of a shard; the number of its tokens."""
    from pydivsufsort import divsufsort

    data = (folder / "tokens").read_bytes()
    stream = np.frombuffer(data, dtype=np.uint8).reshape(-1, meta.width)
    counts = np.zeros(meta.vocab_size + 1, dtype=np.int64)  # the last one is for separators
    for start in range(0, len(stream), BLOCK):
        ids = from_bytes(stream[start : start + BLOCK], meta.width)
        counts += np.bincount(np.minimum(ids, meta.vocab_size), minlength=len(counts))
    starts = np.concatenate(([0], np.cumsum(counts[: meta.vocab_size]))).astype("<u4")
    starts.tofile(folder / "buckets")
    tokens = left = int(starts[-1])
    order = divsufsort(data)
    with open(folder / "suffixes", "wb") as file:
        for start in range(0, len(order), BLOCK):
            block = order[start : start + BLOCK]
            aligned = block[block % meta.width == 0]
            aligned = aligned[:left]  # without the suffixes that start with a separator, which are the last ones
            file.write((aligned // meta.width).astype("<u4").tobytes())
            left -= len(aligned)
    return tokens


def _is_fresh(path: Path, built_from: str) -> bool:
    try:
        meta = read_meta(path)
        check_arrays(path, meta)
    except DatastoreError:
        return False
    return meta.built_from == built_from


def _plain(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer without truncation and padding, which some tokenizer files ask for."""
    if tokenizer.truncation is None and tokenizer.padding is None:
        return tokenizer
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("numpy", "pydivsufsort", "tokenizers")}
