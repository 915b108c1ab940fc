"""Build a datastore: documents in, a directory in the layout of `restviz.datastore.format` out.

The texts are divided into parts of about a shard each, by their sizes alone, and each part is built by itself
(`restviz.datastore.parts`): one here, several in processes of their own, as many as memory allows, or on a Ray cluster
(`restviz.datastore.cluster`).  The parts and so the result do not depend on where they are built.

The directory appears when it is complete.  An interrupted build leaves a `.partial` neighbour that is never opened; the
same build goes on with its finished shards, any other one removes it.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event

from tokenizers import Tokenizer
from tqdm import tqdm

import restviz
from restviz.assets import appears_whole, cache_dir
from restviz.datastore import readers, rest_idx
from restviz.datastore.format import (
    DatastoreError,
    Meta,
    check_arrays,
    read_meta,
    shard_folder,
    token_width,
    vocabulary,
    vocabulary_fingerprint,
    write_meta,
    write_stamp,
)
from restviz.datastore.parts import Piece, Plan, Report, build_part, finished, part_folder
from restviz.datastore.search import Datastore
from restviz.datastore.sources import Recipe, Source, load_recipe, signature

SHARD_TOKENS = 64_000_000
TOKEN_BYTES = 3  # of text at least, in most languages and tokenizers: what a part's size is reckoned with
PACKAGE = str(Path(restviz.__file__).parent.parent)
PROCESS_MEMORY = 300 << 20  # bytes, before the first token
SMALL = 16 << 20  # bytes of text that are built sooner than processes have started
NAMED = 1000  # files left out that a datastore names


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
    max_memory: int | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: bool | Report = True,
    tokenizer_name: str = "",
    stopped: Event | None = None,
) -> bool:
    """Build the datastore of `recipe` in the directory `path`; False when it is there and up to date already.

    Up to date: same recipe, vocabulary and parameters, and the same source files (names, sizes, modification times).
    shard_tokens   a new shard begins when one holds so many tokens or more; a document is never divided
    max_memory     bytes that all processes together may take; shards become smaller where they would not fit
    workers        processes at a time, 0 for none but this one; by default as many as there are cores and memory for
    ray            address of a Ray cluster that builds the parts (`local` starts one on this machine)
    progress       bars on stderr, or who is told of it instead (see `restviz.datastore.parts`)
    stopped        set it, and the build ends with DatastoreError; what it has done is there for the next one
    Raises DatastoreError when there is no text, or when `path` is something else than a datastore.
    """
    fingerprint, size = vocabulary_fingerprint(tokenizer), len(vocabulary(tokenizer))
    width = token_width(size)
    shard_tokens = _fitting(shard_tokens, width, max_memory)
    files = recipe.files()
    built_from = signature(recipe, files, fingerprint, shard_tokens)
    if path.exists() and not (path / "meta.json").exists():
        raise DatastoreError(f"{path} is there already and is not a datastore: choose another place.")

    def begun(partial: Path) -> bool:
        """Whether `partial` is this build and holds a finished shard."""
        try:
            return Plan.read(partial).built_from == built_from and any(partial.glob("part-*/shard-*.json"))
        except (OSError, ValueError, TypeError):
            return False

    with appears_whole(path, lambda: _is_fresh(path, built_from), begun) as partial:
        if partial is None:
            return False
        if not (partial / "plan.json").exists():
            partial.mkdir(exist_ok=True)
            _plain(tokenizer).save(str(partial / "tokenizer.json"))
            parts = _divided(recipe, files, shard_tokens)
            Plan(asdict(recipe), built_from, size, width, shard_tokens, parts).write(partial)
        plan = Plan.read(partial)
        with _told(plan, progress) as report:
            left = [i for i in range(len(plan.parts)) if not finished(partial, i)]
            if ray is not None:
                from restviz.datastore.cluster import build_parts

                build_parts(partial, left, ray, _memory(plan.shard_tokens, width), report)
            elif workers == 0 or (workers is None and not stopped and (len(left) <= 1 or _bytes(plan, left) < SMALL)):
                for index in left:
                    build_part(partial, index, report)
            else:
                count = workers or _workers(len(left), _memory(shard_tokens, width), max_memory)
                _in_processes(partial, left, count, report, stopped or Event())
        _finish(partial, plan, recipe, len(files), fingerprint, tokenizer_name)
    return True


def _bytes(plan: Plan, parts: Iterable[int]) -> int:
    """Bytes of text in these parts."""
    return sum(piece.size for index in parts for piece in plan.parts[index])


def _memory(shard_tokens: int, width: int) -> int:
    """Bytes that building a shard takes: its stream, one offset for each of its bytes, and a process."""
    return PROCESS_MEMORY + shard_tokens * (4 + 5 * width)


def _fitting(shard_tokens: int, width: int, max_memory: int | None) -> int:
    """`shard_tokens`, or as many as `max_memory` allows."""
    if max_memory is None or _memory(shard_tokens, width) <= max_memory:
        return shard_tokens
    fitting = (max_memory - PROCESS_MEMORY) // (4 + 5 * width)
    if fitting < 100_000:
        least = _memory(100_000, width) / 1e6
        raise DatastoreError(
            f"{max_memory / 1e6:,.0f} MB of memory are too little to build in: allow at least {least:,.0f} MB."
        )
    return fitting


def _workers(parts: int, memory: int, max_memory: int | None) -> int:
    import psutil

    allowed = max_memory if max_memory is not None else psutil.virtual_memory().available // 2
    return max(1, min(os.cpu_count() or 1, parts, allowed // memory))


def _divided(recipe: Recipe, files: list[tuple[int, str, Path | None]], shard_tokens: int) -> list[list[Piece]]:
    """The files in parts of about a shard each; large files of lines are cut, streams are parts of their own."""
    limit, room = shard_tokens * TOKEN_BYTES, 0
    parts: list[list[Piece]] = []
    for source, name, path in files:
        for piece in _pieces(recipe.sources[source], source, name, path, limit):
            if not parts or piece.size > room or not piece.path:
                parts.append([])
                room = limit
            parts[-1].append(piece)
            room = room - piece.size if piece.path else 0
    return parts


def _pieces(chosen: Source, source: int, name: str, path: Path | None, limit: int) -> list[Piece]:
    """A file as one piece, or as several of at most about `limit` bytes where it can be cut."""
    if path is None:
        return [Piece(source, name, "", 0)]
    size, spans = path.stat().st_size, [(0, 0, 0)]
    if chosen.extract == rest_idx.KIND:
        spans = [(start, stop, i) for i, (start, stop) in enumerate(rest_idx.chunks(path))]
    elif size > limit and readers.suffix(name) in readers.LINES and not name.lower().endswith(".gz"):
        spans = list(_cut(path, limit))
    return [
        Piece(source, name, str(path), (stop or size) - start, start, stop, before) for start, stop, before in spans
    ]


def _cut(path: Path, limit: int) -> Iterator[tuple[int, int, int]]:
    """`(start, stop, lines before)` of pieces of about `limit` bytes, each of whole lines."""
    start = at = lines = before = 0
    with open(path, "rb") as file:
        while block := file.read(min(limit, 1 << 24)):
            block += file.readline()
            at += len(block)
            lines += block.count(b"\n")
            if at - start >= limit:
                yield start, at, before
                start, before = at, lines
    if at > start:
        yield start, at, before


def _in_processes(root: Path, parts: list[int], count: int, report: Report, stopped: Event) -> None:
    """Build parts in processes, `count` at a time.  Raises DatastoreError when one fails; the others end with it."""
    threads = str(max(1, (os.cpu_count() or 1) // count))
    environment = os.environ | {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGE, os.environ.get("PYTHONPATH")]))
    running: set[subprocess.Popen] = set()

    def one(index: int) -> str:
        """Build a part; what went wrong, or nothing."""
        command = [sys.executable, "-m", "restviz.datastore.parts", str(root), str(index)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}  # it ends with stdin
        with subprocess.Popen(command, env=environment, text=True, encoding="utf-8", **pipes) as process:
            running.add(process)
            for line in process.stdout:
                for what, amount in json.loads(line).items():
                    report(what, amount)
            said = process.stderr.read().strip()
        running.discard(process)
        return _why(process.returncode, said)

    with ThreadPoolExecutor(count) as pool:
        waiting = {pool.submit(one, index) for index in parts}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                if said := next(filter(None, (future.result() for future in done)), ""):
                    raise DatastoreError(said)
                if stopped.is_set():
                    raise DatastoreError("The build was stopped; the same build goes on from where it was.")
        finally:
            for future in waiting:
                future.cancel()
            for process in [*running]:
                process.kill()


def _why(code: int, said: str) -> str:
    """Why the process of a part ended with this exit code, as a sentence; empty for 0."""
    if code in (-9, 137):
        return "A process that built a part was killed, most likely for want of memory: build again with --max-memory."
    if code == 2:
        return said
    return (
        f"A process that built a part ended with {code}: {said.splitlines()[-1] if said else 'it did not say why'}."
        if code
        else ""
    )


@contextmanager
def _told(plan: Plan, progress: bool | Report) -> Iterator[Report]:
    """Whom to tell of progress."""
    if callable(progress):
        yield progress
        return
    options = {"unit_scale": True, "disable": not progress}
    with (
        tqdm(total=_bytes(plan, range(len(plan.parts))), desc="tokenising", unit="B", **options) as read,
        tqdm(desc="sorting", unit="token", **options) as order,
    ):

        def report(what: str, amount: int) -> None:
            if what == "read":
                read.update(amount)
            elif what == "tokens":
                order.total = (order.total or 0) + amount
            elif what == "sorted":
                order.update(amount)

        yield report


def _finish(root: Path, plan: Plan, recipe: Recipe, files: int, fingerprint: str, tokenizer_name: str) -> None:
    """Make a datastore of finished parts."""
    meta = Meta(
        name=recipe.name,
        title=recipe.title,
        description=recipe.description,
        tokenizer=fingerprint,
        tokenizer_name=tokenizer_name,
        vocab_size=plan.vocab_size,
        width=plan.width,
        tokens=0,
        documents=0,
        skipped=0,
        sources=[
            {"asset": s.asset, "licence": s.licence, "attribution": s.attribution, "documents": 0, "tokens": 0}
            for s in recipe.sources
        ],
        built_from=plan.built_from,
        parameters={"shard_tokens": plan.shard_tokens, "field": recipe.field, **_versions()},
    )
    for index in range(len(plan.parts)):
        part = finished(root, index)
        for i, shard in enumerate(part["shards"]):
            made = part_folder(root, index) / f"shard-{i}"
            if made.exists():  # else it is in its place already
                os.replace(made, shard_folder(root, len(meta.shards)))
            meta.shards.append(shard)
        for source, (documents, tokens) in part["counts"].items():
            for key, amount in (("documents", documents), ("tokens", tokens)):
                meta.sources[int(source)][key] += amount
                setattr(meta, key, getattr(meta, key) + amount)
        meta.skipped += part["skipped"]
        meta.left_out += part["left_out"][: NAMED - len(meta.left_out)]
    if not meta.tokens:
        why = "; ".join(f"{name} is {reason}" for name, reason in meta.left_out[:3])
        raise DatastoreError(f"There is no text in the {files} files of {recipe.name}{': ' if why else ''}{why}.")
    write_meta(root, meta)
    write_stamp(root, meta)
    for index in range(len(plan.parts)):
        shutil.rmtree(part_folder(root, index))
    for name in ("plan.json", "tokenizer.json"):
        (root / name).unlink()


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
