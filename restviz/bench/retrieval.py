"""`restviz bench retrieval`: how fast and how good drafting from a datastore is, without any model.

Contexts are random places in code that the default datastore does not hold: the standard library's own tests, or where
an interpreter comes without them, installed packages.  For each one the search, the tree and its ancestor mask are
timed, and the tree is checked against the ten tokens that really follow ("oracle").  Prints a table, in microseconds,
and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import sysconfig
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np

AHEAD = 10  # tokens that the oracle knows
CONTEXT = 512  # tokens before them
FILES = 60


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the command `retrieval` (to those of `bench`); it sets `run`, a function from arguments to exit code."""
    parser = subparsers.add_parser(
        "retrieval", help="time retrieval on held-out code and count the tokens it gets right"
    )
    parser.add_argument("--datastore", default="python-code", metavar="NAME|DIR", help="(default: %(default)s)")
    parser.add_argument("--target", default="default", help="model whose tokenizer to use (default: %(default)s)")
    parser.add_argument("--contexts", type=int, default=2000, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the raw times here")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from restviz.datastore import open_or_build
    from restviz.target.load import load_tokenizer

    tokenizer = load_tokenizer(args.target)
    store = open_or_build(args.datastore, tokenizer, tokenizer_name=args.target)
    result, times = measure(store, held_out_contexts(tokenizer, args.contexts))
    print(f"{'µs':8}{'p50':>8}{'p90':>8}{'p99':>8}{'max':>8}")
    for part, row in result["microseconds"].items():
        print(f"{part:8}" + "".join(f"{row[key]:8.0f}" for key in ("p50", "p90", "p99", "max")))
    print(
        f"nodes of {result['budget']}: mean {result['nodes_mean']:.1f}, median {result['nodes_median']:.0f}\n"
        f"tokens of the next {AHEAD} in the tree: {result['accepted']:.3f}\n"
        f"contexts without a match: {result['no_match']:.1%}"
    )
    if args.json:
        args.json.write_text(json.dumps({**result, "times": times}) + "\n", encoding="utf-8")
    print(json.dumps(result))
    return 0


def held_out_contexts(tokenizer, count: int, seed: int = 0) -> list[tuple[np.ndarray, list[int]]]:
    """`(context, what follows)` at random places of held-out code: int32[≤512] and AHEAD ids."""
    paths = sysconfig.get_paths()
    files = sorted((Path(paths["stdlib"]) / "test").glob("test_*.py"))
    # a walk through all installed packages would take longer than the measurement
    files = files or sorted(islice(Path(paths["purelib"]).glob("*/*.py"), 2000))
    rng = random.Random(seed)
    documents = []
    for path in rng.sample(files, len(files)):
        ids = tokenizer.encode(path.read_text(encoding="utf-8", errors="replace"), add_special_tokens=False).ids
        if len(ids) >= 10 * AHEAD:
            documents.append(ids)
        if len(documents) == FILES:
            break
    contexts = []
    for _ in range(count):
        ids = rng.choice(documents)
        at = rng.randrange(2 * AHEAD, len(ids) - AHEAD)
        contexts.append((np.array(ids[max(0, at - CONTEXT) : at], dtype=np.int32), ids[at : at + AHEAD]))
    return contexts


def measure(store, contexts: list[tuple[np.ndarray, list[int]]]) -> tuple[dict, dict[str, list[float]]]:
    """Draft once in each context with the default parameters; the summary, and raw times in microseconds.

    The parts add up to the total: search is the look-up, tree the draft made from it, mask the kept nodes and their
    ancestor mask.
    """
    from restviz.drafters.base import Context
    from restviz.drafters.rest import RestDrafter

    drafter = RestDrafter(store)
    times = {"search": [], "tree": [], "mask": [], "total": []}
    nodes, accepted, no_match = [], 0, 0
    for tokens, ahead in contexts:
        marks = [perf_counter()]
        found = drafter.retrieve(Context(tokens=tokens, max_depth=AHEAD))
        marks.append(perf_counter())
        draft = drafter.draft_from(int(tokens[-1]), found)
        marks.append(perf_counter())
        tree = draft.tree.keep(draft.kept)
        tree.ancestor_mask()
        marks.append(perf_counter())
        for part, seconds in zip(times, (*np.diff(marks).tolist(), marks[-1] - marks[0]), strict=True):
            times[part].append(round(1e6 * seconds, 1))
        nodes.append(len(tree) - 1)
        no_match += draft.matches[0].length == 0
        node = 0
        for token in ahead:
            node = tree.children(node).get(token)
            if node is None:
                break
            accepted += 1
    microseconds = {
        part: {**{f"p{q}": float(np.percentile(row, q)) for q in (50, 90, 99)}, "max": max(row)}
        for part, row in times.items()
    }
    summary = {
        "benchmark": "retrieval",
        "datastore": store.meta.name,
        "tokens": store.meta.tokens,
        "contexts": len(contexts),
        "budget": drafter.budget,
        "microseconds": microseconds,
        "nodes_mean": float(np.mean(nodes)),
        "nodes_median": float(np.median(nodes)),
        "accepted": accepted / len(contexts),
        "no_match": no_match / len(contexts),
    }
    return summary, times
