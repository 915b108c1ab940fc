"""Datastores of several: merged into one."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from restviz.assets import appears_whole
from restviz.datastore.format import (
    ARRAYS,
    DOCUMENT,
    DatastoreError,
    Meta,
    check_arrays,
    hash_file,
    read_meta,
    shard_folder,
    write_meta,
    write_stamp,
)


def combine(folders: list[Path], path: Path, name: str) -> Meta:
    """Make the datastore `path` of all shards of these datastores, in this order; no array is sorted again.

    Files are shared with theirs where the file system can (hard links).  Raises DatastoreError when one is damaged,
    they were built for different tokenizers, or `path` is there.
    """
    metas = [read_meta(folder) for folder in folders]
    for folder, meta in zip(folders, metas, strict=True):
        if meta.tokenizer != metas[0].tokenizer:
            raise DatastoreError(f"{folders[0]} and {folder} were built for different tokenizers: build one again.")
        check_arrays(folder, meta)
    if path.exists():
        raise DatastoreError(f"{path} is there already: choose another name.")
    total = replace(
        metas[0],
        name=name,
        title=name,
        description="Merged from " + ", ".join(meta.name for meta in metas) + ".",
        built_from="",
        tokens=sum(meta.tokens for meta in metas),
        documents=sum(meta.documents for meta in metas),
        skipped=sum(meta.skipped for meta in metas),
        sources=[source for meta in metas for source in meta.sources],
        left_out=[item for meta in metas for item in meta.left_out],
        shards=[],
    )
    with appears_whole(path) as partial:
        before = 0  # sources of the datastores before
        for folder, meta in zip(folders, metas, strict=True):
            for index, shard in enumerate(meta.shards):
                made = shard_folder(partial, len(total.shards))
                made.mkdir(parents=True)
                for array in ARRAYS:
                    _share(shard_folder(folder, index) / array, made / array)
                total.shards.append(shard if not before else _renumber(made, shard, before))
            before += len(meta.sources)
        write_meta(partial, total)
        write_stamp(partial, total)
    return total


def _renumber(folder: Path, shard: dict, before: int) -> dict:
    """Count the sources of a shard's documents from `before` on; what `Meta.shards` says about it then."""
    documents = np.fromfile(folder / "docs", dtype=DOCUMENT)
    documents["source"] += before
    (folder / "docs").unlink()  # it may be the other datastore's file too
    documents.tofile(folder / "docs")
    changed = shard["arrays"]["docs"] | {"sha256": hash_file(folder / "docs")}
    return shard | {"arrays": shard["arrays"] | {"docs": changed}}


def _share(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
