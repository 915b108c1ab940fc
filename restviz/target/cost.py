"""What a forward costs here, by its number of rows: measured once for a target, dtype and machine, and remembered.

Remembered in the cache's forwards.json, so that a busy moment does not change the dtype, and with it the text of a
near-tie, from one start to the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from restviz.assets import cache_dir
from restviz.target.model import Target
from restviz.target.probe import time_forwards

ROWS = (1, 2, 4, 8, 16, 32, 64)


def forward_times(key: str, load: Callable[[], Target], rows: Sequence[int] = ROWS) -> dict[int, float]:
    """Milliseconds of a tree forward for each of `rows`; what is not known under `key` yet is measured on `load()`."""
    memory = cache_dir() / "forwards.json"
    try:
        everything = json.loads(memory.read_text())
        known = {int(n): float(ms) for n, ms in everything.get(key, {}).items()}
    except (OSError, ValueError, AttributeError):  # not there, or damaged: measured anew
        everything, known = {}, {}
    if missing := tuple(n for n in rows if n not in known):
        known |= {n: round(ms, 2) for n, ms in time_forwards(load(), missing).items()}
        partial = memory.with_suffix(".partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(everything | {key: dict(sorted(known.items()))}, indent=1))
        partial.replace(memory)
    return {n: known[n] for n in rows}
