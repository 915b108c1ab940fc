"""A trace as text for the terminal: tokens coloured and marked by origin, seams between steps."""

from __future__ import annotations

import codecs
from typing import TextIO

from rich.console import Console
from rich.text import Text

from restviz.trace import Step, Trace
from restviz.tree import Source

SEAM = "│"
STYLES = {  # colour and a second sign, since colour alone must not carry meaning
    Source.DATASTORE: ("green underline", "accepted from the datastore"),
    Source.CONTEXT: ("cyan underline", "accepted from the context"),
    Source.MODEL: ("magenta underline", "accepted from the draft model"),
    Source.NONE: ("", "the target's own"),
}


def print_trace(trace: Trace, file: TextIO | None = None) -> None:
    """Print the answer step by step: a seam before each step, drafted tokens underlined."""
    console = Console(file=file, highlight=False, soft_wrap=True)
    text, characters = Text(), codecs.getincrementaldecoder("utf-8")(errors="replace")
    for step in trace.steps:
        text.append(SEAM, style="dim")
        for token, source in tokens_with_source(step):
            # a character split over several tokens appears with the token that completes it
            raw = trace.token_bytes.get(token)
            data = bytes.fromhex(raw) if raw else trace.token_text.get(token, "\ufffd").encode()
            text.append(characters.decode(data), style=_style(source)[0])
    text.append(characters.decode(b"", final=True))
    console.print(text)
    legend = Text("\n")
    for source in sorted({_kind(s) for step in trace.steps for _, s in tokens_with_source(step)}, reverse=True):
        style, meaning = STYLES[source]
        legend.append(meaning, style=style).append("   ")
    console.print(legend.append(f"{SEAM} step", style="dim"))


def print_summary(trace: Trace, file: TextIO) -> None:
    """One line of figures."""
    environment, finish = trace.header.environment, trace.finish
    print(
        f"{trace.header.method}: {len(trace.tokens)} tokens in {trace.forwards} steps + prefill, "
        f"M = {trace.mean_generated_length:.2f} tokens/step, {trace.tokens_per_second:.1f} tokens/s "
        f"({environment.device}, {environment.dtype}, {environment.attention} attention). "
        f"{finish.message if finish else 'Not finished.'}",
        file=file,
    )


def tokens_with_source(step: Step) -> list[tuple[int, Source]]:
    """The tokens that the step added to the text, each with where its draft came from (NONE: not drafted)."""
    drafted = [(step.nodes.token[node], Source(step.origin(node))) for node in step.accepted]
    return drafted + ([] if step.bonus is None else [(step.bonus, Source.NONE)])


def _kind(source: Source) -> Source:
    """The flag that decides the colour of a token of several sources."""
    return next((flag for flag in STYLES if flag in source and flag), Source.NONE)


def _style(source: Source) -> tuple[str, str]:
    return STYLES[_kind(source)]
