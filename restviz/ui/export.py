"""One self-contained HTML file with the player and recorded runs: opens from disk, needs no network and no server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from restviz.trace import Trace

PLAYER = Path(__file__).parent / "player"
SCRIPTS = (
    "dom.js",
    "model.js",
    "answer.js",
    "timeline.js",
    "treelayout.js",
    "tree.js",
    "mask.js",
    "list.js",
    "analysis.js",
    "charts.js",
    "compare.js",
    "verdict.js",
    "inspector.js",
    "view.js",
    "keep.js",
    "whatif.js",
    "player.js",
    "recorded.js",
    "learn.js",
)
PLOTLY = Path(find_spec("plotly").origin).parent / "package_data"
RUNS = ".open(/* runs */)"  # stands in `template` where the runs go, as JSON; keep.js knows it too

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0; padding: 12px clamp(8px, 2vw, 20px); background: #fff; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #0f1720; }} }}
{css}
</style>
{body}
</html>
"""
_PLAYER = """<div id="player"></div>
<script>RestViz.createPlayer(document.getElementById("player")){runs};</script>"""


def page(title: str, body: str, inlined: bool = True) -> str:
    """A page with the player's style around `body`; `inlined`: plotly.js and the player's scripts come before it."""
    scripts = ""
    if inlined:
        texts = [(PLOTLY / "plotly.min.js").read_text(encoding="utf-8")]
        texts += [(PLAYER / name).read_text(encoding="utf-8") for name in SCRIPTS]
        scripts = "\n".join("<script>" + text.replace("</script", "<\\/script") + "</script>" for text in texts)
    css = (PLAYER / "player.css").read_text(encoding="utf-8")
    return _PAGE.format(title=escape(title), css=css, body=f"{scripts}\n{body}")


def safe(value: Any) -> str:
    """JSON for inside a script element: no text in it can end the element."""
    return json.dumps(value).replace("<", "\\u003c")


def template() -> str:
    """The file with `RUNS` where the runs go, so that a browser can put in its own."""
    return page("RestViz: a recorded run", _PLAYER.format(runs=RUNS))


def export(trace: Trace, baseline: Trace | None = None, others: Iterable[Trace] = ()) -> str:
    """The HTML file that shows `trace`, compared with `baseline` if there is one; `others` are more runs to compare."""
    plain = lambda run: run and run.model_dump(mode="json")  # noqa: E731
    runs = {"trace": plain(trace), "baseline": plain(baseline), "others": [plain(other) for other in others]}
    return template().replace(RUNS, f".open({safe(runs)})")
