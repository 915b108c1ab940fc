"""REST's own datastores (`.idx` files of its public code): chunks of tokens with their suffix arrays.

    [u32 bytes] [u16 tokens] [u32 bytes] [i32 suffix array]      little-endian, repeated, without a header

The file says neither which tokenizer made it nor where a document ends, so a chunk is one document here, and its suffix
array is made again, in this program's own layout.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from restviz.datastore.format import DatastoreError

if TYPE_CHECKING:
    from restviz.datastore.parts import Plan

KIND = "rest-idx"


def chunks(path: Path) -> list[tuple[int, int]]:
    """`(start, stop)` in bytes of the tokens of each chunk.  Raises DatastoreError when the file is not whole."""
    size, at, found = path.stat().st_size, 0, []
    with open(path, "rb") as file:

        def take(what: str) -> tuple[int, int]:
            file.seek(at)
            header = file.read(4)
            stop = at + 4 + (struct.unpack("<I", header)[0] if len(header) == 4 else 0)
            if len(header) < 4 or stop > size:
                raise DatastoreError(
                    f"{path} is cut short, or no index of REST: its {what} {len(found) + 1} would end at byte "
                    f"{max(stop, at + 4):,} and the file has {size:,}."
                )
            return at + 4, stop

        while at < size:
            start, at = take("tokens of chunk")
            order, end = take("suffix array of chunk")
            if (at - start) % 2 or (end - order) != 2 * (at - start):
                raise DatastoreError(
                    f"{path} is no index of REST: in chunk {len(found) + 1} the suffix array has {end - order:,} bytes "
                    f"for {at - start:,} bytes of tokens."
                )
            found.append((start, at))
            at = end
    if not found:
        raise DatastoreError(f"{path} is no index of REST: it is empty.")
    return found


def read(
    path: Path, span: tuple[int, int, int] | None, plan: Plan, tick: Callable[[int], None]
) -> Iterator[tuple[int, np.ndarray]]:
    """A chunk as int64 token ids, at most a shard at a time.  Raises DatastoreError for ids that are none."""
    start, stop, before = span or (0, os.path.getsize(path), 0)
    step = 2 * plan.shard_tokens
    for at in range(start, stop, step):
        ids = np.fromfile(path, dtype="<u2", count=(min(at + step, stop) - at) // 2, offset=at).astype(np.int64)
        if (largest := int(ids.max())) >= plan.vocab_size:
            raise DatastoreError(
                f"{path} holds token {largest:,} and this tokenizer has {plan.vocab_size:,} ids: name the tokenizer "
                "that the index was made with (--tokenizer)."
            )
        tick(2 * len(ids))
        yield before + 1, ids
