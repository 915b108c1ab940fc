"""What a datastore is on disk: one directory, one `meta.json`, one folder of arrays per shard.

    meta.json            format version, name, tokenizer, counts, sources with licence and attribution, build
                         parameters, size and sha256 of every array
    stamp.json           size and modification time of every array when its sha256 was last found right
    shard-000/tokens     the token stream, w-byte big-endian, so that byte order is token order
    shard-000/suffixes   uint32[t], the suffix array of the stream: token positions, sorted by what follows
    shard-000/buckets    uint32[vocab_size + 1]: suffixes that start with token i are at buckets[i]:buckets[i + 1]
    shard-000/docs       DOCUMENT[d], the documents in stream order
    shard-000/paths      UTF-8 paths of the documents' files, each ended by a NUL byte

w is 2 when the vocabulary has less than 65,536 ids, else 3.  The all-ones value is no token: it is the separator that
ends every document, so a stream is never without one at its end.  Everything but `tokens` is little-endian.
A document lies in one shard, whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from restviz.assets import hash_file
from restviz.errors import RestvizError

FORMAT_VERSION = 2  # 1 has no `left_out`
ARRAYS = ("tokens", "suffixes", "buckets", "docs", "paths")
DOCUMENT = np.dtype([("start", "<u4"), ("record", "<u4"), ("source", "<u4"), ("path", "<u4")])


class DatastoreError(RestvizError):
    """A datastore that cannot be built or used; the message is one sentence for the user."""


@dataclass
class Meta:
    """The content of `meta.json`."""

    name: str
    title: str
    description: str
    tokenizer: str  # fingerprint of the vocabulary
    tokenizer_name: str  # for people; may be empty
    vocab_size: int
    width: int  # bytes per token
    tokens: int  # separators not counted
    documents: int
    skipped: int  # files without a document
    sources: list[dict]  # asset, licence, attribution, documents, tokens
    built_from: str  # hash of the recipe, the source files' names, sizes and times, and the build parameters
    parameters: dict  # build parameters and the versions of what built it
    shards: list[dict] = field(default_factory=list)  # {"tokens": t, "arrays": {name: {"size": bytes, "sha256": hex}}}
    left_out: list[list[str]] = field(default_factory=list)  # files that were not read, or not whole, and why
    format_version: int = FORMAT_VERSION

    @property
    def content(self) -> str:
        """Hash of all arrays: equal for datastores with the same content."""
        return hashlib.sha256(json.dumps([self.tokenizer, self.shards]).encode()).hexdigest()


def vocabulary(tokenizer: Tokenizer) -> list[str | None]:
    """The token of every id, added tokens included; None where an id is not used."""
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    if None in tokens:  # as many ids as there are gaps lie beyond; asking for the whole vocabulary is slow, so only now
        tokens = [tokenizer.id_to_token(i) for i in range(max(tokenizer.get_vocab().values()) + 1)]
    return tokens


def vocabulary_fingerprint(tokenizer: Tokenizer) -> str:
    """sha256 (hex) of the vocabulary in the order of its ids: the same ids mean the same tokens."""
    return hashlib.sha256(json.dumps(vocabulary(tokenizer), separators=(",", ":")).encode()).hexdigest()


def token_width(vocab_size: int) -> int:
    """Bytes per token, such that the all-ones value is left for the separator."""
    return 2 if vocab_size < 1 << 16 else 3


def separator(width: int) -> int:
    return (1 << 8 * width) - 1


def to_bytes(ids: np.ndarray | list[int], width: int) -> bytes:
    """Big-endian bytes of token ids, `width` bytes each."""
    if width == 2:
        return np.asarray(ids, dtype=">u2").tobytes()
    return np.asarray(ids, dtype=">u4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()


def from_bytes(data: np.ndarray, width: int) -> np.ndarray:
    """int32[...] token ids of `data`, uint8[..., width]."""
    ids = data[..., 0].astype(np.int32)
    for i in range(1, width):
        ids = ids << 8 | data[..., i]
    return ids


def shard_folder(root: Path, index: int) -> Path:
    return root / f"shard-{index:03d}"


def write_meta(root: Path, meta: Meta) -> None:
    record = asdict(meta)
    (root / "meta.json").write_text(json.dumps(record | {"sha256": _hash(record)}, indent=1) + "\n", encoding="utf-8")


def _hash(record: dict) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def read_meta(root: Path) -> Meta:
    """Read `meta.json`.  Raises DatastoreError when `root` is no datastore that this version can read."""
    try:
        raw = json.loads((root / "meta.json").read_text(encoding="utf-8"))
        version = raw["format_version"]
    except FileNotFoundError:
        raise DatastoreError(f"{root} is not a datastore: it has no meta.json.") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise DatastoreError(f"{root} is not a datastore: its meta.json cannot be read as one.") from None
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise DatastoreError(
            f"{root} has datastore format {version} and this RestViz reads up to {FORMAT_VERSION}: update RestViz, or "
            "build the datastore again."
        )
    if raw.pop("sha256", None) != _hash(raw):
        raise DatastoreError(f"{root} is damaged: its meta.json was altered after it was built; build it again.")
    try:
        return Meta(**raw)
    except TypeError:
        raise DatastoreError(
            f"{root} is damaged: its meta.json does not describe a datastore; build it again."
        ) from None


def describe_arrays(folder: Path) -> dict:
    """What `Meta.shards` says about the shard in `folder`; reads and hashes its arrays."""
    arrays = {name: {"size": (folder / name).stat().st_size, "sha256": hash_file(folder / name)} for name in ARRAYS}
    return {"tokens": arrays["suffixes"]["size"] // 4, "arrays": arrays}


def check_arrays(root: Path, meta: Meta, *, full: bool = False) -> None:
    """Raise DatastoreError unless every array under `root` is what `meta` says.

    Sizes are always compared.  A sha256 is computed only for arrays whose size and modification time are not in the
    stamp, which is written after each successful check (where the directory can be written), or with `full`.
    """
    stamp = {} if full else _read_stamp(root)
    found = {}
    for index, shard in enumerate(meta.shards):
        folder = shard_folder(root, index)
        if not folder.is_dir():
            raise DatastoreError(f"{root} is incomplete: {folder.name} is missing; build it again.")
        for name, expected in shard["arrays"].items():
            key = f"{folder.name}/{name}"
            try:
                stat = (folder / name).stat()
            except OSError:
                raise DatastoreError(f"{root} is incomplete: {key} is missing; build it again.") from None
            if stat.st_size != expected["size"]:
                state = "cut short" if stat.st_size < expected["size"] else "longer than it was"
                raise DatastoreError(
                    f"{root} is damaged: {key} is {state} ({stat.st_size:,} bytes instead of {expected['size']:,}); "
                    "build it again."
                )
            found[key] = [stat.st_size, stat.st_mtime_ns]
            if stamp.get(key) != found[key] and hash_file(folder / name) != expected["sha256"]:
                raise DatastoreError(f"{root} is damaged: {key} was altered after it was built; build it again.")
    if found != stamp:
        _write_stamp(root, found)


def write_stamp(root: Path, meta: Meta) -> None:
    """Note that the arrays, just hashed for `meta`, are right."""
    keys = [f"{shard_folder(root, i).name}/{name}" for i in range(len(meta.shards)) for name in ARRAYS]
    _write_stamp(root, {key: [(stat := (root / key).stat()).st_size, stat.st_mtime_ns] for key in keys})


def _read_stamp(root: Path) -> dict:
    try:
        stamp = json.loads((root / "stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _write_stamp(root: Path, stamp: dict) -> None:
    partial = root / f"stamp.json.{os.getpid()}"
    with suppress(OSError):  # a datastore in a read-only place is fine: it is hashed at every opening
        partial.write_text(json.dumps(stamp), encoding="utf-8")
        os.replace(partial, root / "stamp.json")
