"""A hand-made trace for the player's tests: every kind of node, awkward texts, and a tree of 64 nodes, 10 deep.

The player only ever draws what a trace says, so what matters here is variety, not where the numbers came from.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from restviz.trace import (
    DatastoreInfo,
    Environment,
    Finish,
    FirstStep,
    Header,
    Look,
    Match,
    ModelInfo,
    Nodes,
    Step,
    Tested,
    Times,
    Trace,
)
from restviz.tree import Source, TokenTree, from_nodes, from_paths, fuse

EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
TEXTS = {
    0: "<|im_start|>",
    1: "user\n",
    2: "Hello",
    3: EVIL,
    4: "\n    ",
    5: " world",
    6: "&amp;",
    7: "\ufffd",
    8: "\ufffd",
    9: "${1+1}{{2}}",
}
BYTES = {7: "e282", 8: "ac"}  # together: the euro sign
PROMPT = [0, 1, 2, 2]
WORDS = range(100, 200)
STORES = {"rest": ["made"], "rasd": ["other", "made"]}


def header(method: str) -> Header:
    return Header(
        created="2026-12-01T00:00:00+00:00",
        method=method,
        parameters={"temperature": 0.0, "seed": 0, "max_new_tokens": 64, "retrievers": "both"},
        model=ModelInfo(
            name="hand-made",
            source="tests",
            revision=None,
            architecture="none",
            parameters=1,
            vocab_size=200,
            context_window=1024,
            tokenizer="none",
        ),
        environment=Environment(
            device="cpu", device_name="none", dtype="float32", attention="exact", bit_exact=True, threads=1, versions={}
        ),
        datastores=[DatastoreInfo(name=name, fingerprint="none", tokens=1000) for name in STORES.get(method, [])],
        prompt="Hello",
        prompt_ids=PROMPT,
    )


def nodes(tree: TokenTree, accepted: list[int], pruned: set[int]) -> Nodes:
    def fate(i: int) -> str:
        return "root" if i == 0 else "accepted" if i in accepted else "pruned_budget" if i in pruned else "rejected"

    n, seen = len(tree), {0, *accepted}
    looked = [i > 0 and i not in pruned and int(tree.parent[i]) in seen for i in range(n)]
    return Nodes(
        token=tree.token.tolist(),
        parent=tree.parent.tolist(),
        source=tree.source.tolist(),
        count=tree.count.tolist(),
        logp=[None] * n,
        target_p=[(0.9 if i in accepted else 0.01) if look else None for i, look in enumerate(looked)],
        fate=[fate(i) for i in range(n)],
    )


def times(ms: float) -> Times:
    return Times(retrieve=0.2, forward=ms, accept=0.5, other=1.0)


def rest_trace() -> Trace:
    """Prefill, a step with awkward tokens and pruned nodes, a step without a draft, a big tree."""
    trace = Trace(header=header("rest"), token_text=TEXTS | {w: f" w{w}" for w in WORDS}, token_bytes=BYTES)
    alone = from_paths(2, [])
    trace.steps.append(
        Step(index=0, position=3, nodes=nodes(alone, [], set()), accepted=[], bonus=3, times=times(80.0))
    )

    tree = from_paths(3, [(4, 5, 7), (4, 6, 9), (5,), (100, 101)], [5, 3, 2, 1])
    index = {path: i for i, path in enumerate(tree.paths())}
    accepted = [index[4,], index[4, 5], index[4, 5, 7]]
    trace.steps.append(
        Step(
            index=1,
            position=4,
            nodes=nodes(tree, accepted, {index[100,], index[100, 101]}),
            matches=[Match(retriever="made", length=3, hits=11, sampled=11)],
            unrecorded=2,
            accepted=accepted,
            bonus=8,
            looks=[Look(node=0, token=[4, 5], p=[0.9, 0.01]), Look(node=accepted[-1], token=[8, 2], p=[0.99, 0.01])],
            times=times(20.0),
        )
    )

    alone = from_paths(8, [])
    empty = Match(retriever="made", length=0, hits=0, sampled=0)
    trace.steps.append(
        Step(
            index=2,
            position=8,
            nodes=nodes(alone, [], set()),
            matches=[empty],
            accepted=[],
            bonus=9,
            times=times(15.0),
        )
    )

    paths = [tuple(100 + (7 * leaf + depth) % 100 for depth in range(10)) for leaf in range(6)] + [(4, 5, 6, 9)]
    tree = from_paths(9, paths)
    assert len(tree) == 65
    deep = [i for i, path in enumerate(tree.paths()) if path and path == paths[2][: len(path)]]
    trace.steps.append(
        Step(
            index=3,
            position=9,
            nodes=nodes(tree, deep, set()),
            matches=[Match(retriever="made", length=2, hits=4000, sampled=1000)],
            accepted=deep,
            bonus=2,
            times=times(30.0),
        )
    )
    trace.finish = Finish(reason="max_new_tokens", message="Reached the limit of new tokens.")
    return trace


def rasd_trace() -> Trace:
    """One step of RASD with nodes of every origin: two branches pruned, two nodes in both trees, a path accepted."""
    trace = Trace(header=header("rasd"), token_text=TEXTS | {w: f" w{w}" for w in WORDS}, token_bytes=BYTES)
    alone = from_paths(2, [])
    trace.steps.append(
        Step(index=0, position=3, nodes=nodes(alone, [], set()), accepted=[], bonus=100, times=times(80.0))
    )
    stored = from_paths(100, [(101, 102, 103), (101, 104), (120, 121), (130,)], [6, 4, 3, 1], Source.datastore(1))
    repeated = from_paths(100, [(101, 102), (140, 141)], source=Source.CONTEXT)
    drafted = from_nodes(100, [101, 102, 110, 111], [0, 1, 0, 3], [-0.2, -0.9, -2.0, -2.5])
    tree = reduce(fuse, [stored, repeated, drafted])
    index = {path: i for i, path in enumerate(tree.paths())}
    accepted = [index[101,], index[101, 102], index[101, 102, 103]]
    made = nodes(tree, accepted, set())
    for path in [(120,), (120, 121), (140,), (140, 141)]:
        made.fate[index[path]] = "pruned_first_token"
    made.fate[index[130,]] = "pruned_budget"
    made.logp = [None if np.isnan(value) else float(value) for value in tree.logp]
    tested = [(101, 1, 0.8), (120, 143, 0.0004), (140, 9000, 0.0)]
    trace.steps.append(
        Step(
            index=1,
            position=4,
            nodes=made,
            matches=[
                Match(retriever="made", length=3, hits=14, sampled=14),
                Match(retriever="context", length=2, hits=2, sampled=2),
            ],
            first=FirstStep(
                token=[101, 110, 150],
                p=[0.8, 0.13, 0.02],
                k=10,
                tested=[Tested(node=index[token,], rank=rank, p=p) for token, rank, p in tested],
            ),
            accepted=accepted,
            bonus=105,
            looks=[Look(node=0, token=[101, 110], p=[0.9, 0.01])],
            times=times(20.0),
        )
    )
    trace.finish = Finish(reason="max_new_tokens", message="Reached the limit of new tokens.")
    return trace


def baseline_trace(tokens: list[int]) -> Trace:
    """The same tokens one at a time, 12 ms each."""
    trace = Trace(header=header("autoregressive"), token_text=rest_trace().token_text, token_bytes=BYTES)
    root = PROMPT[-1]
    for index, token in enumerate(tokens):
        alone = nodes(from_paths(root, []), [], set())
        trace.steps.append(
            Step(index=index, position=3 + index, nodes=alone, accepted=[], bonus=token, times=Times(forward=12.0))
        )
        root = token
    trace.finish = Finish(reason="max_new_tokens", message="Reached the limit of new tokens.")
    return trace
