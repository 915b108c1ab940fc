"""The page: prompt and parameters on the left, the player on the right.

`build()` makes it; `launch()` serves it.  The engine loads in the background, so the page opens at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, get_args

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read on import: no request may leave the machine

import gradio as gr

from restviz.datastore import DATASTORES
from restviz.drafters import METHODS
from restviz.settings import Settings, SettingsError
from restviz.ui.bundled import BUNDLED
from restviz.ui.bundled import METHODS as METHODS_OF_RUNS
from restviz.ui.component import learn, player, routes
from restviz.ui.config import Offer, offer, on_zero_gpu
from restviz.ui.presets import PRESETS
from restviz.ui.runner import Runner

NO_RUN = "none"  # ?run=none: the page as it is before anything was run
SAMPLING = ("max_new_tokens", "temperature", "top_k", "top_p", "seed")
GROUPS = {  # the fields of the form below the sampling's, and the heading above them
    "Retrieval": ("length", "budget"),
    "REST": ("n_max", "n_min", "cap", "stores"),
    "Prompt lookup": ("pld_n_max", "pld_n_min"),
    "Draft model": ("draft_k", "draft_depth", "draft_nodes"),
    "RASD": ("draft_model", "retrievers", "prune_k", "fused_cap", "overlap"),
}
LABELS = {
    "max_new_tokens": "New tokens, at most",
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "seed": "Seed",
    "length": "Continuation",
    "budget": "Node budget",
    "n_max": "Longest suffix",
    "n_min": "Shortest suffix",
    "cap": "Continuations read",
    "stores": "Datastores",
    "pld_n_max": "Longest suffix in the text",
    "pld_n_min": "Shortest suffix in the text",
    "draft_k": "K, nodes a level",
    "draft_depth": "Depth",
    "draft_nodes": "Nodes",
    "draft_model": "Draft model",
    "retrievers": "Retrieve from",
    "prune_k": "k, first tokens that stay",
    "fused_cap": "Cap of the fused tree",
    "overlap": "Retrieve while drafting",
}

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
#rv-stores input { color: var(--body-text-color) !important; } /* its placeholder is too pale */
#rv-tabs [role="tab"][aria-selected="true"] { color: var(--primary-700); } /* the theme's is too pale to read */
.dark #rv-tabs [role="tab"][aria-selected="true"] { color: var(--primary-300); }
#rv-learn { padding: 0; }
@media (min-width: 900px) {
  #rv-form { position: sticky; top: 10px; align-self: start; max-width: 330px; }
  #rv-tabs { margin-top: -36px; } /* beside the title */
  #rv-tabs > .tab-wrapper { width: fit-content; margin-left: auto; padding-bottom: 4px; }
}
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
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_dark="*primary_600",
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
    values = {name: ",".join(value) if isinstance(value, list) else value for name, value in values.items()}
    try:
        return Settings(**values)
    except SettingsError as error:  # it names fields; people see labels
        raise SettingsError(re.sub(r"\w+", lambda word: LABELS.get(word[0], word[0]), str(error))) from None


def build(offered: Offer) -> gr.Blocks:
    """The page, with the models, datastores and limits that are `offered`."""
    limits, models = offered.limits, [model.name for model in offered.models]
    by_name = {model.name: model for model in offered.models}
    loads = {name: partial(model.load, offered.datastores) for name, model in by_name.items()}
    runner = Runner(loads, limits, lambda name: by_name[name].check(), on_zero_gpu())
    drafts = [name for name in METHODS if name != "assistant" or any(model.assistant for model in offered.models)]
    first = PRESETS[0]

    def engine(_: Any) -> str:
        return runner.state()

    def steps(data: list) -> str:
        run, start = data
        return runner.steps(str(run), int(start))

    def what_if(data: list) -> str:
        return runner.what_if(*data)

    def places(data: list) -> str:
        return runner.places(*data)

    with gr.Blocks(title="RestViz", analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)) as page:
        gr.HTML(
            "<h1>RestViz</h1><p>Retrieval-based speculative decoding (REST, RASD) on a real model, step by step.</p>",
            elem_id="rv-title",
        )
        tabs = gr.Tabs(elem_id="rv-tabs")
        with tabs, gr.Tab("Studio"), gr.Row():
            with gr.Column(scale=0, min_width=330, elem_id="rv-form"):
                preset = gr.Radio([p.label for p in PRESETS], value=first.label, label="Examples", elem_id="rv-presets")
                prompt = gr.Textbox(first.prompt, label="Prompt", lines=8, max_lines=14, elem_id="rv-prompt")
                choices = [(METHODS[name].label, name) for name in drafts]
                method = gr.Dropdown(choices, value="rest", label="Method", elem_id="rv-method", filterable=False)
                with gr.Row():
                    run = gr.Button("Run", variant="primary", elem_id="rv-run", min_width=100)
                    stop = gr.Button("Stop", variant="secondary", interactive=False, elem_id="rv-stop", min_width=100)
                every = gr.Button("Compare methods", variant="secondary", elem_id="rv-every")
                with gr.Accordion("Advanced", open=False, elem_id="rv-advanced"):
                    model = gr.Dropdown(
                        [(model.label, model.name) for model in offered.models],
                        value=models[0],
                        label="Model",
                        info="another one is loaded when Run is pressed",
                        visible=len(models) > 1,
                        filterable=False,
                        elem_id="rv-model",
                    )
                    chat = gr.Checkbox(
                        first.chat, label="Chat template", info="off: the model continues the prompt as it is"
                    )
                    fresh = gr.Checkbox(
                        False,
                        label="Measure the baseline again",
                        info="else it is kept for this prompt and sampling",
                        elem_id="rv-fresh",
                    )
                    drafting = [(label, name) for label, name in choices if name != "autoregressive"]
                    compared = gr.CheckboxGroup(
                        drafting,
                        value=[name for _, name in drafting],
                        label="Methods of a comparison",
                        info="each is compared with autoregressive decoding",
                        elem_id="rv-compared",
                    )
                    repeats = gr.Dropdown(
                        [n for n in (1, 2, 3, 5) if not limits or n <= limits.repeats],
                        value=1,
                        label="Repeats of a comparison",
                        info="each method so many times, to see the spread",
                        filterable=False,
                        elem_id="rv-repeats",
                    )
                    gr.Markdown("**Sampling (for every method)**")
                    with gr.Row():
                        fields = {name: field(name, offered.datastores) for name in SAMPLING}
                    groups = {}
                    for title, names in GROUPS.items():
                        with gr.Column(visible=reads("rest", names), elem_classes="rv-group") as groups[title]:
                            gr.Markdown(f"**{title}**")
                            with gr.Row():
                                fields |= {name: field(name, offered.datastores) for name in names}
            with gr.Column(scale=1, min_width=320):
                view = player([engine, steps, what_if, places], what_if_fields(offered.datastores))
        with tabs, gr.Tab("Learn"):
            learn([what_if, places], what_if_fields(offered.datastores))

        async def on_run(
            request: gr.Request,
            model: str,
            prompt: str,
            method: str,
            chat: bool,
            fresh: bool,
            *values: Any,
            **comparison: Any,
        ) -> AsyncIterator[tuple]:
            form = {"method": method, "chat": chat, **dict(zip(fields, values, strict=True))}
            keep, off, on = gr.skip(), gr.update(interactive=False), gr.update(interactive=True)
            yield keep, off, on, off
            make = lambda **change: settings_from(form | change)  # noqa: E731
            messages = runner.run(request.session_hash, prompt, make, fresh, model=model, **comparison)
            async with aclosing(messages):  # when the visitor leaves, the run ends now and not some time later
                async for message in messages:
                    yield message, keep, keep, keep
            yield keep, on, off, on

        async def on_every(request: gr.Request, *values: Any) -> AsyncIterator[tuple]:
            *form, compared, repeats = values
            async with aclosing(on_run(request, *form, methods=compared, repeats=int(repeats))) as messages:
                async for message in messages:
                    yield message

        def on_method(method: str) -> list[dict]:
            return [gr.update(visible=reads(method, names)) for names in GROUPS.values()]

        def on_load(request: gr.Request) -> list:
            values, wrong = linked(request.query_params, drafts, offered.datastores)
            method = values.get("method")
            return [
                gr.update(value=None) if "prompt" in values else gr.skip(),
                *(values.get(name, gr.skip()) for name in ("prompt", "method", "chat", *fields)),
                *(gr.update(visible=reads(method, names)) if method else gr.skip() for names in GROUPS.values()),
                runner.encode(error=wrong) if wrong else gr.skip(),
            ]

        async def on_stop(request: gr.Request) -> None:
            runner.stop(request.session_hash)

        async def on_leave(request: gr.Request) -> None:
            runner.leave(request.session_hash)

        def on_preset(label: str) -> tuple[str, bool]:
            return next((p.prompt, p.chat) for p in PRESETS if p.label == label)

        for button, action, more in ((run, on_run, []), (every, on_every, [compared, repeats])):
            button.click(
                action,
                [model, prompt, method, chat, fresh, *fields.values(), *more],
                [view, run, stop, every],
                show_progress="hidden",
                concurrency_limit=None,  # the runner keeps the queue itself, so that it can say who waits for what
                api_visibility="private",
            )
        method.input(
            on_method, method, list(groups.values()), queue=False, show_progress="hidden", api_visibility="private"
        )
        stop.click(on_stop, None, None, queue=False, show_progress="hidden", api_visibility="private")
        preset.input(on_preset, preset, [prompt, chat], queue=False, show_progress="hidden", api_visibility="private")
        page.load(
            on_load,
            None,
            [preset, prompt, method, chat, *fields.values(), *groups.values(), view],
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
        page.unload(on_leave)
    page.runner = runner
    return page


def linked(
    query: Mapping[str, str], methods: Sequence[str] = tuple(METHODS), datastores: Sequence[str] = DATASTORES
) -> tuple[dict[str, Any], str]:
    """What a link fills into the form (see keep.js), and what is wrong with the link, if anything.

    `methods` and `datastores`: those that the form offers.
    """
    if "run" in query:  # the page shows it, the form stays as it is
        run, method = query["run"], query.get("method", METHODS_OF_RUNS[0])
        if run not in (*BUNDLED, NO_RUN):
            return {}, f"The link cannot be used: there is no recorded run “{run}”, only {', '.join(BUNDLED)}."
        if method not in METHODS_OF_RUNS:
            return (
                {},
                f"The link cannot be used as it is: the recorded run has {', '.join(METHODS_OF_RUNS)}, not {method}.",
            )
        return {}, ""
    named = {name: query[name] for name in Settings.model_fields if name in query}
    try:
        values = {name: value for name, value in Settings(**named).model_dump().items() if name in named}
    except SettingsError as error:
        return {}, f"The link cannot be used: {error}"
    wrong = ""
    if values.get("method", methods[0]) not in methods:
        wrong = f"The link cannot be used as it is: {values.pop('method')} needs a model that is not set up here."
    if "stores" in values:
        values["stores"] = [store for store in values["stores"].split(",") if store in datastores]
    return values | ({"prompt": query["prompt"]} if "prompt" in query else {}), wrong


def reads(method: str, names: tuple[str, ...]) -> bool:
    """Whether drafting with `method` depends on one of these settings."""
    return any(name in METHODS[method].parameters for name in names)


def what_if_fields(datastores: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """What can be asked after a run of each method: its drafting parameters, with labels and limits."""

    def described(name: str) -> dict[str, Any]:
        setting = Settings.model_fields[name]
        common = {"name": name, "label": LABELS[name], "text": setting.description}
        if isinstance(setting.default, str):
            if name == "stores":
                return common | {"choices": list(datastores), "many": True}
            return common | {"choices": list(get_args(setting.annotation))}
        limits = {type(limit).__name__.lower(): limit for limit in setting.metadata}
        return common | {"min": limits["ge"].ge, "max": limits["le"].le}

    speed = {"overlap", "draft_model"}  # no other tree, or a model that may not be there
    return {
        name: [described(parameter) for parameter in method.parameters if parameter not in speed]
        for name, method in METHODS.items()
    }


def field(name: str, datastores: Sequence[str]) -> gr.Number | gr.Dropdown:
    """The form's field for a setting, with the setting's own description."""
    setting = Settings.model_fields[name]
    common = {
        "label": LABELS[name],
        "info": re.sub(r"^(REST|PLD|RASD|retrieval|draft model): ", "", setting.description),
        "min_width": 120,
        "elem_id": f"rv-{name.replace('_', '-')}",
    }
    if name == "stores":
        return gr.Dropdown(list(datastores), value=[], multiselect=True, **common)
    if isinstance(setting.default, str):
        return gr.Dropdown(list(get_args(setting.annotation)), value=setting.default, filterable=False, **common)
    return gr.Number(setting.default, step=0.05 if isinstance(setting.default, float) else 1, **common)


def launch(host: str = "127.0.0.1", port: int = 7860) -> None:
    """Serve the page until interrupted.  Raises OSError when the port is taken, ConfigError for a wrong setting."""
    offered = offer()
    page = build(offered)
    if on_zero_gpu() and (error := page.runner.engine.exception()):
        raise error  # what is not on the GPU when the page starts never is
    print(f"RestViz is at http://{host}:{port} (Ctrl+C ends it)", flush=True)
    page.launch(
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
        max_file_size=f"{offered.limits.upload_mb}mb" if offered.limits else None,
        quiet=True,
    )
