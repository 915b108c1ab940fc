"""Lessons: Markdown files that walk through recorded runs, one page at a time, with the player beside the text.

    ---
    title: Guessing from a corpus
    run: stack                                  a folder of traces, a file for each method (see `restviz.ui.bundled`)
    ---
    ## Where the text has been before {method=rest step=most}
    The last {{match}} tokens stand in the datastore …
    > Do: go to the step after it. {step=+1}
    ## Check {method=rest step=most}
    What would happen if …?
    - [ ] An answer :: what to say to it
    - [x] The right one :: why it is right

A page begins with `##` and says in braces what the player shows (`SHOWN`).  `{{name}}` is a number of that step or run,
computed from the trace (`facts`), `{{method.name}}` of another method's run, so that no sentence can say what the trace
does not.  A step is a number, or a name of `STEPS`, so that a run can be recorded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from restviz.errors import RestvizError
from restviz.trace import Step, Trace

LESSONS = Path(__file__).parent / "lessons"
POINTS = ("root", "bonus", "accepted", "rejected", "pruned", "drafted", "shared")  # see player/learn.js
SHOWN = ("method", "step", "stage", "node", "open", "chart")  # see player/learn.js


class LessonError(RestvizError):
    """A lesson that is not written as lessons are."""


def _tested(step: Step, fate: str) -> int:
    return sum(one == fate for one in step.nodes.fate)


STEPS: dict[str, Callable[[Step], float]] = {  # the step after the prefill for which this is largest
    "most": lambda step: len(step.accepted),
    "least": lambda step: _verified(step) if not step.accepted else -1,
    "bushy": lambda step: len(step.accepted) * (len(set(step.nodes.parent)) < _verified(step)) * _branches(step),
    "pruned": lambda step: _tested(step, "pruned_first_token") + (0.5 if step.accepted else 0),
    "fused": lambda step: _shared(step) + (0.5 if step.accepted else 0),
}


def _verified(step: Step) -> int:
    return sum(not fate.startswith("pruned") for fate in step.nodes.fate) - 1


def _branches(step: Step) -> int:
    """Nodes of the verified tree with more than one child."""
    parents = [p for p, fate in zip(step.nodes.parent, step.nodes.fate, strict=True) if not fate.startswith("pruned")]
    return sum(parents.count(parent) > 1 for parent in set(parents) - {-1})


def _from(step: Step, *flags: int) -> int:
    """Nodes of the verified tree that come from each of these (3: retrieved, 4: drafted by a model)."""
    kept = [i for i, fate in enumerate(step.nodes.fate) if i and not fate.startswith("pruned")]
    return sum(all(step.origin(i) & flag for flag in flags) for i in kept)


def _shared(step: Step) -> int:
    return _from(step, 3, 4)


def facts(trace: Trace, index: int, baseline: Trace) -> dict[str, str]:
    """What can be said of a run and of one of its steps, as it is written in a sentence."""
    step, times = trace.steps[index], [s.times for s in trace.steps[1:]]
    forward = sorted(t.forward for t in times)[len(times) // 2]
    ms = trace.header.environment.forward_ms or {}
    longest = max((m.length for m in step.matches), default=0)
    told = {
        "M": f"{trace.mean_generated_length:.2f}",
        "forwards": trace.forwards,
        "tokens": len(trace.tokens),
        "speed": f"{trace.tokens_per_second:.1f}",
        "speedup": f"{trace.tokens_per_second / baseline.tokens_per_second:.2f}",
        "forward_ms": f"{forward:.0f}",
        "drafting_ms": f"{sum(t.retrieve + t.draft + t.fuse for t in times) / len(times):.1f}",
        "step": index,
        "emitted": len(step.emitted),
        "accepted": len(step.accepted),
        "nodes": _verified(step),
        "match": longest,
        "hits": sum(m.hits for m in step.matches if m.length == longest),
        "rejected": _verified(step) - len(step.accepted),
        "over_budget": _tested(step, "pruned_budget") + step.unrecorded,
        "pruned": _tested(step, "pruned_first_token"),
        "tested": len(step.first.tested) if step.first else 0,
        "k": step.first.k if step.first else 0,
        "model": sum(bool(flags & 4) for flags in step.nodes.source[1:]),
        "retrieved": _from(step, 3),
        "drafted": _from(step, 4),
        "shared": _shared(step),
        "one_row_ms": f"{ms[1]:.0f}" if 1 in ms else "?",
        "two_rows_ms": f"{ms[2]:.0f}" if 2 in ms else "?",
        "many_rows_ms": f"{ms[32]:.0f}" if 32 in ms else "?",
        "many_rows_cost": f"{ms[32] / ms[1]:.1f}" if {1, 32} <= set(ms) else "?",
        "device": trace.header.environment.device_name or trace.header.environment.device,
    }
    return {name: f"{value:,}" if isinstance(value, int) else value for name, value in told.items()}


@dataclass
class Page:
    """One page of a lesson: what it says (HTML), what the player shows, what is to be done, and what is asked."""

    title: str
    html: str
    shown: dict[str, Any]
    task: str = ""  # HTML
    goal: dict[str, Any] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)  # text and feedback (HTML), right


@dataclass
class Lesson:
    name: str
    title: str
    run: str
    prompt: str
    pages: list[Page]


def lessons(runs: Path, folder: Path = LESSONS) -> list[Lesson]:
    """All lessons of a folder in order of their names; `runs`: the folder with the runs.  Raises LessonError."""
    return [read_lesson(path, runs) for path in sorted(folder.glob("*.md"))]


def read_lesson(path: Path, runs: Path) -> Lesson:
    """A lesson with every number filled in.  Raises LessonError with one sentence when it is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise LessonError(f"{path} cannot be read.") from None
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    values = dict(re.findall(r"^(\w+): *(.+)$", head[1], re.MULTILINE)) if head else {}
    if missing := [name for name in ("title", "run") if name not in values]:
        raise LessonError(f"{path.name} has no “{missing[0]}:” between two lines of --- at its start.")
    traces = {file.name.split(".")[0]: Trace.load(file) for file in sorted((runs / values["run"]).glob("*.json.gz"))}
    if "autoregressive" not in traces:
        raise LessonError(f"{path.name}: the run {values['run']} has no autoregressive.json.gz in {runs}.")
    parts = re.split(r"^## +(.*?)(?: *\{([^{}]*)\})? *$", text[head.end() :], flags=re.MULTILINE)
    pages = [_page(path.name, title, shown or "", body, traces) for title, shown, body in _threes(parts[1:])]
    if not pages:
        raise LessonError(f"{path.name} has no page: a page begins with a line “## Its title”.")
    return Lesson(path.stem, values["title"], values["run"], traces["autoregressive"].header.prompt, pages)


def _threes(parts: list[str]) -> list[tuple[str, str, str]]:
    return [(parts[i], parts[i + 1], parts[i + 2]) for i in range(0, len(parts), 3)]


def _page(name: str, title: str, shown: str, body: str, traces: Mapping[str, Trace]) -> Page:
    where = f"{name}, “{title}”"
    wanted = _braces(where, shown)
    method = wanted.setdefault("method", "autoregressive")
    if unknown := [key for key in wanted if key not in SHOWN]:
        raise LessonError(f"{where}: “{unknown[0]}” is nothing that the player shows: choose from {', '.join(SHOWN)}.")
    if method not in traces:
        raise LessonError(f"{where}: there is no run of {method}, only of {', '.join(traces)}.")
    wanted["step"] = _step(where, wanted.get("step", "0"), traces[method], 0)
    fill = lambda text: _filled(where, text, traces, method, wanted["step"])  # noqa: E731
    page = Page(title, "", wanted)
    text = []
    for line in body.strip().splitlines():
        if match := re.match(r"> Do: *(.*?) *\{([^{}]*)\}$", line):
            page.task, page.goal = _html(fill(match[1]), True), _braces(where, match[2])
            if "step" in page.goal:
                run = traces[page.goal.get("method", method)]
                page.goal["step"] = _step(where, page.goal["step"], run, wanted["step"])
        elif match := re.match(r"- \[([ x])\] *(.*?) *:: *(.*)$", line):
            told = {"text": _html(fill(match[2]), True), "feedback": _html(fill(match[3]), True)}
            page.answers.append(told | {"right": match[1] == "x"})
        else:
            text.append(line)
    if page.answers and sum(answer["right"] for answer in page.answers) != 1:
        raise LessonError(f"{where}: one answer has to be the right one, marked [x].")
    if unknown := [name for name in re.findall(r"\]\(#([^)]*)\)", "\n".join(text)) if name not in POINTS]:
        raise LessonError(f"{where}: a link cannot point at “{unknown[0]}”: choose from {', '.join(POINTS)}.")
    page.html = _html(fill("\n".join(text)))
    return page


def _braces(where: str, text: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in text.split()]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise LessonError(f"{where}: “{wrong[0]}” in braces has to be name=value.")
    return {name: value for name, _, value in pairs}


def _step(where: str, step: str, trace: Trace, now: int) -> int:
    if step in STEPS:
        return max(trace.steps[1:], key=STEPS[step]).index
    if not re.fullmatch(r"[+-]?\d+", step):
        raise LessonError(f"{where}: the step “{step}” is no number and none of {', '.join(STEPS)}.")
    index = now + int(step) if step[0] in "+-" else int(step)
    if not 0 <= index < len(trace.steps):
        raise LessonError(f"{where}: the run has steps 0 to {len(trace.steps) - 1}, and no {index}.")
    return index


def _filled(where: str, text: str, traces: Mapping[str, Trace], method: str, step: int) -> str:
    def fact(match: re.Match) -> str:
        other, _, name = match[1].rpartition(".")
        trace = traces.get(other or method)
        told = facts(trace, step if not other else 0, traces["autoregressive"]) if trace else {}
        if name not in told:
            raise LessonError(f"{where}: there is no fact “{match[1]}”.")
        return told[name]

    return re.sub(r"\{\{ *([\w.]+) *\}\}", fact, text)


def _html(text: str, inline: bool = False) -> str:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    return (markdown.renderInline if inline else markdown.render)(text)
