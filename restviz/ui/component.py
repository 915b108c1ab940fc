"""The player as a Gradio component, and the static files it needs.

The component is an empty host with a fixed template: Gradio only carries messages (see `restviz.ui.runner`) to it as
its value, and everything is drawn by the player's own JavaScript.  All files are served by this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import gradio as gr
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from restviz.ui.bundled import BUNDLED, METHODS, RUNS
from restviz.ui.export import PLAYER, PLOTLY, SCRIPTS, template
from restviz.ui.lesson import lessons

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
    """Shows runs; its value is the latest message as a JSON string.  `fields`: what can be asked after a run."""
    script = f"RestViz.connect(element, props, server, watch, {_options(fields=fields)});"
    return _component("rv-player", "rv-host", script, server_functions)


def learn(server_functions: list[Callable[[Any], str]], fields: dict[str, list[dict]]) -> gr.HTML:
    """The lessons with a player beside them; `fields` as above."""
    told = [asdict(lesson) for lesson in lessons(RUNS)]
    script = f"RestViz.connectLessons(element, server, {_options(fields=fields, lessons=told)});"
    return _component("rv-learn", "rv-learn-host", script, server_functions)


def _options(**options: Any) -> str:
    runs = {name: {"methods": METHODS, "shown": run.shown} for name, run in BUNDLED.items()}
    return json.dumps({"base": BASE, "runs": runs, **options})


def _component(elem_id: str, host: str, script: str, server_functions: list[Callable[[Any], str]]) -> gr.HTML:
    """Not a subclass of gr.HTML: Gradio would write a .pyi file next to the module that defines one."""
    head = f'<link rel="stylesheet" href="{BASE}player/player.css">'
    head += "".join(f'<script src="{BASE}player/{name}"></script>' for name in (*SCRIPTS, "gradio.js"))
    return gr.HTML(
        "{}",
        html_template=f'<div class="{host}"></div>',
        js_on_load=script,
        apply_default_css=False,
        head=head if elem_id == "rv-player" else None,
        server_functions=server_functions,
        elem_id=elem_id,
    )
