"""The work of a build: a plan of parts, each of which is built by itself, in whatever process.

    plan.json                   what all parts need to know, and the pieces of text each is made of
    tokenizer.json
    part-000/shard-0/           a finished shard (see `restviz.datastore.format`)
    part-000/shard-0.json       what it holds; the shard counts only once this is there
    part-000/part.json          the part is finished: its shards, and what was left out

A part is read from its start and writes a shard whenever `shard_tokens` tokens are there: tokenise, sort (the suffix
array, from pydivsufsort over the stream's bytes, keeping the positions where a token starts), hash.  One that was
interrupted reads over what its finished shards hold and goes on, so that its result is the same.

    python -m restviz.datastore.parts FOLDER INDEX

builds one, tells its progress in JSON lines on stdout, and ends when stdin does: when whoever started it is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from restviz.datastore import readers, rest_idx
from restviz.datastore.format import describe_arrays, from_bytes, separator, to_bytes
from restviz.datastore.sources import Document, Recipe, Source, stream
from restviz.errors import RestvizError

BATCH_CHARACTERS = 1_000_000
BLOCK = 1 << 22  # suffixes filtered at a time
LEFT_OUT = 1000  # files of a part that are named with the reason

Report = Callable[[str, int], None]  # told of progress: "read" bytes of the sources, "tokens" made, "sorted", "shards"


@dataclass(frozen=True)
class Piece:
    """A file, a part of a file of lines or of REST's `.idx` (bytes start to stop), or a stream."""

    source: int
    name: str
    path: str  # empty: a stream
    size: int  # bytes to read
    start: int = 0
    stop: int = 0  # 0: the whole file
    before: int = 0  # records of the file before this part


@dataclass(frozen=True)
class Plan:
    """The content of `plan.json`."""

    recipe: dict
    built_from: str  # see `Meta`
    vocab_size: int
    width: int
    shard_tokens: int
    parts: list[list[Piece]]

    def write(self, root: Path) -> None:
        _write(root / "plan.json", asdict(self))

    @classmethod
    def read(cls, root: Path) -> Plan:
        raw = json.loads((root / "plan.json").read_text(encoding="utf-8"))
        return cls(**raw | {"parts": [[Piece(**piece) for piece in part] for part in raw["parts"]]})

    def of_sources(self) -> Recipe:
        return Recipe(**self.recipe | {"sources": [Source(**source) for source in self.recipe["sources"]]})


def part_folder(root: Path, index: int) -> Path:
    return root / f"part-{index:03d}"


def finished(root: Path, index: int) -> dict | None:
    """What `part.json` says: `shards` (as in `Meta.shards`), `sources` and `left_out`; None while it is not there."""
    return _read(part_folder(root, index) / "part.json")


def build_part(root: Path, index: int, report: Report = lambda what, amount: None) -> None:
    """Build a part of the plan in `root`, from where an earlier attempt was interrupted.

    Raises AssetError when a stream cannot be had.
    """
    if finished(root, index):
        return
    plan, folder = Plan.read(root), part_folder(root, index)
    tokenizer = Tokenizer.from_file(str(root / "tokenizer.json"))
    folder.mkdir(exist_ok=True)
    shards = []
    while (shard := _read(folder / f"shard-{len(shards)}.json")) is not None:
        shards.append(shard)
    for rest in folder.glob("*.new*"):  # of an attempt that was killed
        shutil.rmtree(rest) if rest.is_dir() else rest.unlink(missing_ok=True)

    def finish(writer: _ShardWriter) -> None:
        writer.close()
        _sort(writer.folder, plan, report)
        described = describe_arrays(writer.folder) | {"counts": writer.counts}
        place = folder / f"shard-{len(shards)}"
        if place.exists():  # it was moved here, but not noted
            shutil.rmtree(place)
        os.replace(writer.folder, place)
        _write(folder / f"shard-{len(shards)}.json", described)
        shards.append(described)
        report("shards", 1)

    left_out: list[list[str]] = []
    seen = sum(count for shard in shards for count, _ in shard["counts"].values())
    documents = islice(_documents(plan, index, left_out, report), seen, None)
    writer = None
    for document, ids in _encoded(documents, tokenizer, plan, left_out):
        if writer and writer.position >= plan.shard_tokens:
            finish(writer)
            writer = None
        writer = writer or _ShardWriter(folder / f"shard-{len(shards)}.new-{os.getpid()}", plan.width)
        writer.add(document, ids)
        report("tokens", len(ids))
    if writer:
        finish(writer)
    counts: dict[str, list[int]] = {}
    for shard in shards:
        for source, (documents_, tokens) in shard.pop("counts").items():
            known = counts.setdefault(source, [0, 0])
            counts[source] = [known[0] + documents_, known[1] + tokens]
    reasons = Counter(reason for _, reason, _ in left_out)
    _write(
        folder / "part.json",
        {
            "shards": shards,
            "counts": counts,
            "skipped": sum(not partly for _, _, partly in left_out),
            "left_out": [[name, reason] for name, reason, _ in left_out[:LEFT_OUT]],
            "reasons": reasons,
        },
    )


class _ShardWriter:
    """Appends documents to a shard's `tokens`, `docs` and `paths`."""

    def __init__(self, folder: Path, width: int):
        folder.mkdir(parents=True)
        self.folder, self.width, self.position, self.path, self.path_start = folder, width, 0, None, 0
        self.counts: dict[str, list[int]] = {}  # documents and tokens of each source
        names = ("tokens", "docs", "paths")
        self.tokens, self.docs, self.paths = (open(folder / name, "wb") for name in names)  # noqa: SIM115, see close

    def add(self, document: Document, ids: np.ndarray) -> None:
        if (document.source, document.path) != self.path:
            self.path, self.path_start = (document.source, document.path), self.paths.tell()
            self.paths.write(document.path.encode(errors="replace").replace(b"\0", b"") + b"\0")
        self.docs.write(struct.pack("<4I", self.position, document.record, document.source, self.path_start))
        self.tokens.write(to_bytes(ids, self.width) + to_bytes([separator(self.width)], self.width))
        self.position += len(ids) + 1
        documents, tokens = self.counts.get(str(document.source), (0, 0))
        self.counts[str(document.source)] = [documents + 1, tokens + len(ids)]

    def close(self) -> None:
        for file in (self.tokens, self.docs, self.paths):
            file.close()


def _documents(plan: Plan, index: int, left_out: list, report: Report) -> Iterator[Document]:
    """The documents of a part; what could not be read goes to `left_out` as name, reason and whether some of it was."""
    recipe = plan.of_sources()
    for piece in plan.parts[index]:
        source, some = recipe.sources[piece.source], False
        span = (piece.start, piece.stop, piece.before) if piece.stop else None
        tick = lambda size: report("read", size)  # noqa: E731
        try:
            if not piece.path:
                found = stream(source, recipe.field)
            elif source.extract == rest_idx.KIND:
                found = rest_idx.read(Path(piece.path), span, plan, tick)
            else:
                path = Path(piece.path)
                found = readers.read(path, piece.name, recipe.field, extract=source.extract, span=span, tick=tick)
            for record, text in found:
                some = True
                yield Document(piece.source, piece.name, record, text)
        except readers.Unreadable as why:
            left_out.append([piece.name, str(why), some])


def _encoded(
    documents: Iterator[Document], tokenizer: Tokenizer, plan: Plan, left_out: list
) -> Iterator[tuple[Document, np.ndarray]]:
    """Documents with their token ids, tokenised about BATCH_CHARACTERS at a time."""
    for batch in _batches(documents):
        if not isinstance(batch[0].text, str):
            yield from ((document, document.text) for document in batch)
            continue
        encodings = tokenizer.encode_batch_fast([document.text for document in batch], add_special_tokens=False)
        for i, document in enumerate(batch):
            ids = np.array(encodings[i].ids, dtype=np.int64)
            encodings[i] = None  # an encoding is many times the size of its ids
            yield document, ids


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch, characters = [], 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _sort(folder: Path, plan: Plan, report: Report) -> None:
    """Write `suffixes` and `buckets` of a shard."""
    from pydivsufsort import divsufsort

    data = (folder / "tokens").read_bytes()
    stream = np.frombuffer(data, dtype=np.uint8).reshape(-1, plan.width)
    counts = np.zeros(plan.vocab_size + 1, dtype=np.int64)  # the last one is for separators
    for start in range(0, len(stream), BLOCK):
        ids = from_bytes(stream[start : start + BLOCK], plan.width)
        counts += np.bincount(np.minimum(ids, plan.vocab_size), minlength=len(counts))
    starts = np.concatenate(([0], np.cumsum(counts[: plan.vocab_size]))).astype("<u4")
    starts.tofile(folder / "buckets")
    tokens = left = int(starts[-1])
    order = divsufsort(data)
    with open(folder / "suffixes", "wb") as file:
        for start in range(0, len(order), BLOCK):
            block = order[start : start + BLOCK]
            aligned = block[block % plan.width == 0]
            aligned = aligned[:left]  # without the suffixes that start with a separator, which are the last ones
            file.write((aligned // plan.width).astype("<u4").tobytes())
            left -= len(aligned)
    report("sorted", tokens)


def _read(path: Path) -> dict | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def _write(path: Path, content: dict) -> None:
    new = path.with_name(f"{path.name}.new-{os.getpid()}")
    new.write_text(json.dumps(content), encoding="utf-8")
    os.replace(new, path)


def main(root: str, index: str) -> int:
    """Build one part; the exit code, 2 with a sentence on stderr when it cannot be built."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        build_part(Path(root), int(index), _Told())
    except RestvizError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


class _Told:
    """Progress as JSON lines on stdout, a few a second."""

    def __init__(self) -> None:
        self.amounts: Counter[str] = Counter()
        self.last = 0.0

    def __call__(self, what: str, amount: int) -> None:
        self.amounts[what] += amount
        if time.monotonic() - self.last > 0.2 or what == "shards":
            print(json.dumps(self.amounts), flush=True)
            self.amounts.clear()
            self.last = time.monotonic()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
