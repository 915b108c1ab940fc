"""RestViz: see how retrieval-based speculative decoding works, on a real model, one verification step at a time.

    import restviz
    trace = restviz.generate("def quicksort(", method="rest")

The names below are loaded on first use, so that the parts without torch stay fast to import.
"""

from __future__ import annotations

__version__ = "0.1.0"

_WHERE = {
    "Engine": "restviz.api",
    "Run": "restviz.api",
    "Settings": "restviz.settings",
    "generate": "restviz.api",
    "load": "restviz.api",
    "RestvizError": "restviz.errors",
    "Trace": "restviz.trace",
    "TokenTree": "restviz.tree",
    "Datastore": "restviz.datastore",
}
__all__ = ["Datastore", "Engine", "RestvizError", "Run", "Settings", "TokenTree", "Trace", "generate", "load"]


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'restviz' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
