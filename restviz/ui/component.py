"""The player as a Gradio component, and the static files it needs.

The component is an empty host with a fixed template: Gradio only carries messages (see `restviz.ui.runner`) to it as
its value, and everything is drawn by the player's own JavaScript.  All files are served by this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gradio as gr
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from restviz.ui.bundled import BUNDLED, METHODS, RUNS
from restviz.ui.export import PLAYER, PLOTLY, SCRIPTS, template

BASE = "restviz/"  # relative: it also holds behind a proxy that serves the page under a path


def routes() -> list[Mount | Route]:
    """Routes for `launch(app_kwargs=…)`: the player's files, plotly.js, recorded runs, an exported page's template."""
    return [
        Mount(f"/{BASE}player", StaticFiles(directory=PLAYER)),
        Mount(f"/{BASE}plotly", StaticFiles(directory=PLOTLY)),
        Mount(f"/{BASE}runs", StaticFiles(directory=RUNS)),
        Route(
            f"/{BASE}export.html", lambda request: PlainTextResponse(template())
        ),  # text: a browser shows no run there
    ]


def player(server_functions: list[Callable[[Any], str]], fields: dict[str, list[dict]]) -> gr.HTML:
    """Shows runs; its value is the latest message as a JSON string.  `fields`: what can be asked after a run.

    Not a subclass of gr.HTML: Gradio would write a .pyi file next to the module that defines one.
    """
    runs = {name: {"methods": METHODS, "shown": run.shown} for name, run in BUNDLED.items()}
    options = {"base": BASE, "fields": fields, "runs": runs}
    head = f'<link rel="stylesheet" href="{BASE}player/player.css">'
    head += "".join(f'<script src="{BASE}player/{name}"></script>' for name in (*SCRIPTS, "gradio.js"))
    return gr.HTML(
        "{}",
        html_template='<div class="rv-host"></div>',
        js_on_load=f"RestViz.connect(element, props, server, watch, {json.dumps(options)});",
        apply_default_css=False,
        head=head,
        server_functions=server_functions,
        elem_id="rv-player",
    )
