"""The page: prompt and parameters on the left, the player on the right.

`build(load)` makes it; `launch()` serves it.  The engine loads in the background, so the page opens at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read on import: no request may leave the machine

import gradio as gr

import restviz
from restviz.settings import Settings, SettingsError
from restviz.ui.component import player, routes
from restviz.ui.presets import PRESETS
from restviz.ui.runner import Runner

METHODS = (("REST", "rest"), ("Autoregressive", "autoregressive"))
SAMPLING = (
    ("max_new_tokens", "New tokens, at most"),
    ("temperature", "Temperature"),
    ("top_k", "Top-k"),
    ("top_p", "Top-p"),
    ("seed", "Seed"),
)
REST = (
    ("n_max", "Longest suffix"),
    ("n_min", "Shortest suffix"),
    ("length", "Continuation"),
    ("budget", "Node budget"),
    ("cap", "Continuations read"),
)
LABELS = dict((*SAMPLING, *REST))

CSS = """
.gradio-container { max-width: none !important; overflow: clip !important; } /* hidden would undo position: sticky */
.gradio-container > .main { padding: 10px clamp(8px, 2vw, 20px) !important; max-width: 1800px; }
#rv-title .html-container, #rv-player .html-container { padding: 0; }
.gradio-container main { gap: 4px; }
#rv-title { padding: 0; }
#rv-title h1 { font-size: 20px; margin: 0; display: inline; }
#rv-title p { margin: 0 0 0 12px; display: inline; opacity: 0.8; }
#rv-form { gap: 10px; }
#rv-form .form { gap: 0; }
#rv-prompt textarea { font-family: var(--font-mono); font-size: 12.5px; line-height: 1.45; }
#rv-advanced div.block { padding: 4px 6px; }
#rv-advanced .form { border: 0; }
#rv-advanced [data-testid="block-info"] { padding: 0; }
#rv-advanced .row { gap: 8px; }
@media (min-width: 900px) { #rv-form { position: sticky; top: 10px; align-self: start; max-width: 330px; } }
"""


def theme() -> gr.themes.Base:
    """System fonts: nothing is fetched, and text is there at once."""
    return gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],
        font_mono=["ui-monospace", "Menlo", "Consolas", "monospace"],
        spacing_size="sm",
        radius_size="md",
    ).set(
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_700",
        block_title_text_color_dark="*neutral_200",
    )


def settings_from(values: dict[str, Any]) -> Settings:
    """Settings from what the form holds; raises SettingsError with one sentence."""
    for name, label in LABELS.items():
        if values.get(name) is None:
            raise SettingsError(f"{label} is empty: give it a number.")
    try:
        return Settings(**values)
    except SettingsError as error:  # it names fields; people see labels
        raise SettingsError(re.sub(r"\w+", lambda word: LABELS.get(word[0], word[0]), str(error))) from None


def build(load: Callable[[], Any] | None = None) -> gr.Blocks:
    """The page.  `load` gives the engine (default `restviz.load`) and is called in a thread at once."""
    runner = Runner(load or restviz.load)
    first = PRESETS[0]

    def engine(_: Any) -> str:
        return runner.state()

    def steps(data: list) -> str:
        run, start = data
        return runner.steps(str(run), int(start))

    with gr.Blocks(title="RestViz", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(
            "<h1>RestViz</h1><p>Retrieval-based speculative decoding (REST) on a real model, one step at a time.</p>",
            elem_id="rv-title",
        )
        with gr.Row():
            with gr.Column(scale=0, min_width=330, elem_id="rv-form"):
                preset = gr.Radio([p.label for p in PRESETS], value=first.label, label="Examples", elem_id="rv-presets")
                prompt = gr.Textbox(first.prompt, label="Prompt", lines=8, max_lines=14, elem_id="rv-prompt")
                method = gr.Radio(list(METHODS), value="rest", label="Method", elem_id="rv-method")
                with gr.Row():
                    run = gr.Button("Run", variant="primary", elem_id="rv-run", min_width=100)
                    stop = gr.Button("Stop", variant="secondary", interactive=False, elem_id="rv-stop", min_width=100)
                with gr.Accordion("Advanced", open=False, elem_id="rv-advanced"):
                    chat = gr.Checkbox(
                        first.chat, label="Chat template", info="off: the model continues the prompt as it is"
                    )
                    fresh = gr.Checkbox(
                        False,
                        label="Measure the baseline again",
                        info="else it is kept for this prompt and sampling",
                        elem_id="rv-fresh",
                    )
                    numbers = {}
                    for title, names in (("Sampling (for both methods)", SAMPLING), ("REST", REST)):
                        gr.Markdown(f"**{title}**")
                        with gr.Row():
                            for name, label in names:
                                numbers[name] = number(name, label)
            with gr.Column(scale=1, min_width=320):
                view = player([engine, steps])

        async def on_run(
            request: gr.Request, prompt: str, method: str, chat: bool, fresh: bool, *values: Any
        ) -> AsyncIterator[tuple]:
            form = {"method": method, "chat": chat, **dict(zip(numbers, values, strict=True))}
            keep = gr.skip()
            yield keep, gr.update(interactive=False), gr.update(interactive=True)
            make = lambda **change: settings_from(form | change)  # noqa: E731
            messages = runner.run(request.session_hash, prompt, make, fresh)
            async with aclosing(messages):  # when the visitor leaves, the run ends now and not some time later
                async for message in messages:
                    yield message, keep, keep
            yield keep, gr.update(interactive=True), gr.update(interactive=False)

        async def on_stop(request: gr.Request) -> None:
            runner.stop(request.session_hash)

        def on_preset(label: str) -> tuple[str, bool]:
            return next((p.prompt, p.chat) for p in PRESETS if p.label == label)

        run.click(
            on_run,
            [prompt, method, chat, fresh, *numbers.values()],
            [view, run, stop],
            show_progress="hidden",
            concurrency_limit=None,  # the runner keeps the queue itself, so that it can say who waits for what
            api_visibility="private",
        )
        stop.click(on_stop, None, None, queue=False, show_progress="hidden", api_visibility="private")
        preset.input(on_preset, preset, [prompt, chat], queue=False, show_progress="hidden", api_visibility="private")
        page.unload(on_stop)
    return page


def number(name: str, label: str) -> gr.Number:
    field = Settings.model_fields[name]
    return gr.Number(
        field.default,
        label=label,
        info=field.description.removeprefix("REST: "),
        step=0.05 if isinstance(field.default, float) else 1,
        min_width=120,
        elem_id=f"rv-{name.replace('_', '-')}",
    )


def launch(host: str = "127.0.0.1", port: int = 7860, load: Callable[[], Any] | None = None) -> None:
    """Serve the page until interrupted.  Raises OSError when the port is taken."""
    build(load).launch(
        server_name=host,
        server_port=port,
        theme=theme(),
        css=CSS,
        app_kwargs={"routes": routes()},
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        show_error=False,
        share=False,
    )
