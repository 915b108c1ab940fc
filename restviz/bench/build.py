"""`restviz bench build`: how fast datastores are built, what they take, and how fast a large one is searched.

The documents of some recipes are written to one file of JSON lines.  Builds of one shard and of eight, and the same
tokenising and pydivsufsort call without anything around them, take turns; each runs in a process of its own, so that
its peak memory is its own.  Then both datastores are searched with the same held-out contexts, one after the other.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from restviz.bench.retrieval import held_out_contexts, measure
from restviz.datastore import Datastore, build, load_recipe, recipe_from_files
from restviz.datastore.build import TOKEN_BYTES
from restviz.datastore.sources import read_documents

SHARDS = (1, 8)
BATCH = 1_000_000  # characters


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the command `build` to those of `bench`."""
    from restviz.bench.speed import checked_json

    parser = subparsers.add_parser("build", help="time building datastores, and searching large ones")
    text = "recipes to take documents from (default: %(default)s)"
    parser.add_argument("--recipes", nargs="+", default=["python-code", "encyclopedia"], metavar="NAME", help=text)
    parser.add_argument("--target", default="default", help="model whose tokenizer to use (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="builds of each kind (default: 3)")
    parser.add_argument("--contexts", type=int, default=2000, metavar="N", help="searches (default: %(default)s)")
    parser.add_argument("--json", type=checked_json, metavar="FILE", help="also write the raw figures here")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> None:
    from restviz.target.load import load_tokenizer

    tokenizer = load_tokenizer(args.target)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save(str(folder / "tokenizer.json"))
        _spool(args.recipes, folder / "corpus.jsonl")
        size = (folder / "corpus.jsonl").stat().st_size
        print(f"{size / 1e6:,.0f} MB of text")
        rows: dict[str, list[dict[str, Any]]] = {}
        for repeat in range(args.repeats):
            for kind, shards in [("reference", 0), *((f"{n} shards", n) for n in SHARDS)]:
                row = _alone(_plain if not shards else _built, folder, shards)
                rows.setdefault(kind, []).append(row)
                print(
                    f"{repeat + 1} {kind:10}" + "".join(f"  {key} {value:,}" for key, value in row.items()), flush=True
                )
        summary: dict[str, Any] = {"benchmark": "build", "recipes": args.recipes, "bytes_of_text": size}
        for kind, found in rows.items():
            summary[kind] = {key: round(statistics.median(row[key] for row in found), 2) for key in found[0]}
        contexts = held_out_contexts(tokenizer, args.contexts)
        for n in SHARDS:
            store = Datastore.open(folder / f"store-{n}")
            measure(store, contexts[:200])  # the page cache, and Python's own warm-up
            result, _ = measure(store, contexts)
            summary[f"{n} shards"] |= {"shards": len(store.shards), "search_us": result["microseconds"]["total"]}
            print(f"search in {len(store.shards)} shards, µs: {result['microseconds']['total']}")
    if args.json:
        args.json.write_text(json.dumps({**summary, "rows": rows}) + "\n", encoding="utf-8")
    print(json.dumps(summary))


def _spool(recipes: list[str], path: Path) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for recipe in map(load_recipe, recipes):
            for source, name, where in recipe.files():
                for document in read_documents(recipe, source, name, where):
                    file.write(json.dumps({"text": document.text}) + "\n")


def _alone(work: Any, *arguments: Any) -> dict[str, Any]:
    """What `work` returns in a process of its own, with that process's peak memory."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (work, *arguments))


def _measured(work: Any, *arguments: Any) -> dict[str, Any]:
    before = _peak()
    return work(*arguments) | {"peak_mb": round(_peak()), "peak_before_mb": round(before)}


def _peak() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e3 if sys.platform == "linux" else 1e6)


def _built(folder: Path, shards: int) -> dict[str, Any]:
    """Build a datastore of so many shards in this process; tokens/s of each stage, and bytes a token on disk."""
    from tokenizers import Tokenizer

    corpus = folder / "corpus.jsonl"
    shutil.rmtree(folder / f"store-{shards}", ignore_errors=True)
    clock = {"tokens": 0.0, "sorted": 0.0, "shards": 0.0}
    last = start = perf_counter()

    def report(what: str, amount: int) -> None:
        nonlocal last
        now = perf_counter()
        clock["tokens" if what == "read" else what] += now - last
        last = now

    size = corpus.stat().st_size
    build(
        recipe_from_files([str(corpus)]),
        Tokenizer.from_file(str(folder / "tokenizer.json")),
        folder / f"store-{shards}",
        shard_tokens=size // shards // TOKEN_BYTES + 100_000,
        progress=report,
        workers=0,
    )
    total = perf_counter() - start
    meta = Datastore.open(folder / f"store-{shards}").meta
    on_disk = sum(array["size"] for shard in meta.shards for array in shard["arrays"].values())
    return {
        "tokens": meta.tokens,
        "tokenising_per_s": round(meta.tokens / clock["tokens"]),
        "sorting_per_s": round(meta.tokens / clock["sorted"]),
        "hashing_s": round(clock["shards"], 2),
        "total_s": round(total, 2),
        "bytes_per_token": round(on_disk / meta.tokens, 3),
    }


def _plain(folder: Path, shards: int) -> dict[str, Any]:
    """The same texts tokenised, and sorted by one call, with nothing written."""
    import numpy as np
    from pydivsufsort import divsufsort
    from tokenizers import Tokenizer

    tokenizer, parts = Tokenizer.from_file(str(folder / "tokenizer.json")), []
    start, batch, characters = perf_counter(), [], 0
    with open(folder / "corpus.jsonl", encoding="utf-8") as file:
        for line in [*file, ""]:
            if line:
                batch.append(json.loads(line)["text"])
                characters += len(batch[-1])
            if characters >= BATCH or not line:
                encodings = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
                parts += [np.array([*encoding.ids, 65_535], dtype=">u2") for encoding in encodings]
                batch, characters = [], 0
    data = np.concatenate(parts).tobytes()
    tokenised = perf_counter()
    divsufsort(data)
    done = perf_counter()
    tokens = len(data) // 2 - len(parts)
    return {
        "tokens": tokens,
        "tokenising_per_s": round(tokens / (tokenised - start)),
        "sorting_per_s": round(tokens / (done - tokenised)),
        "total_s": round(done - start, 2),
    }
