"""Where a retrieved node comes from: the lines of the datastores in which its path follows the matched suffix."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from restviz.errors import RestvizError
from restviz.trace import Trace
from restviz.tree import Source

if TYPE_CHECKING:
    from restviz.api import Engine

SHOWN = 3  # places for each datastore


def places(engine: Engine, trace: Trace, index: int, node: int, limit: int = SHOWN) -> list[dict[str, Any]]:
    """For each datastore that node `node` of step `index` is from: `datastore`, `total` (how often it stands there) and
    up to `limit` `locations` (see `restviz.datastore.search.Location`, without the licence of what is not shown).

    Raises RestvizError when the engine has not the datastore that the trace was made with.
    """
    if not 0 <= index < len(trace.steps) or not 0 < node < len(trace.steps[index].nodes.token):
        raise RestvizError(f"Step {index} has no drafted node {node}.")
    step = trace.steps[index]
    path = [step.nodes.token[i] for i in step.nodes.path(node)]
    text = [*trace.header.prompt_ids, *trace.tokens][: step.position + 1]
    found = []
    for i, info in enumerate(trace.header.datastores):
        flag = Source.datastore(i)
        if step.nodes.source[node] & flag != flag:
            continue
        store = next((store for store in engine.datastores if store.meta.content == info.fingerprint), None)
        if store is None:
            raise RestvizError(f"This run used another version of the datastore {info.name} than the one that is open.")
        length = next(match.length for match in step.matches if match.retriever == info.name)
        query = [*text[len(text) - length :], *path]
        where = store.locate(query, engine.target.tokenizer.backend_tokenizer, limit)
        found.append(
            {"datastore": info.name, "total": where.total, "locations": [asdict(place) for place in where.locations]}
        )
    return found
