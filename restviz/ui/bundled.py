"""The recorded runs that come with RestViz, so that the page has something real to show before any model is loaded.

A folder of `runs/` for each prompt, a trace for each method.  `python -m restviz.ui.bundled` (or `make runs`) records
them anew, on an otherwise quiet machine: the times in them are what people see.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from restviz.settings import Settings
from restviz.ui.presets import PRESETS

RUNS = Path(__file__).parent / "runs"
METHODS = ("autoregressive", "pld", "rest", "eagle", "rasd")


class Recorded(NamedTuple):
    prompt: str
    settings: Settings
    shown: str  # the method to look at first


BUNDLED = {
    "stack": Recorded(PRESETS[0].prompt, Settings(chat=PRESETS[0].chat, max_new_tokens=96), "rasd"),
    "sky": Recorded(PRESETS[3].prompt, Settings(chat=PRESETS[3].chat, max_new_tokens=96), "rest"),
}


def main() -> None:
    from restviz import load

    engine = load()
    for name, run in BUNDLED.items():
        (RUNS / name).mkdir(parents=True, exist_ok=True)
        engine.generate(run.prompt, run.settings.but(max_new_tokens=16))  # warm up
        for method in METHODS:
            trace = engine.generate(run.prompt, run.settings.but(method=method))
            path = trace.save(RUNS / name / f"{method}.json.gz")
            print(f"{path}: {trace.tokens_per_second:.1f} tokens/s, M {trace.mean_generated_length:.2f}")


if __name__ == "__main__":
    main()
