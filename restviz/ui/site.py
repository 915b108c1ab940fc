"""Pages that need no server: the folder that `make static` writes, and a lesson as one HTML file.

`python -m restviz.ui.site FOLDER` writes the folder: the lessons, the player with the recorded runs, and plotly.js.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from restviz.trace import Trace
from restviz.ui.bundled import BUNDLED, METHODS, RUNS
from restviz.ui.export import PLAYER, PLOTLY, SCRIPTS, page, safe
from restviz.ui.lesson import Lesson, lessons

PAGES = {"index.html": "Lessons", "player.html": "Player"}
HOST = '<div id="host"></div>\n<script>RestViz.{call}(document.getElementById("host"), {{ {options} }});</script>'


def lesson_page(lesson: Lesson, runs: Path = RUNS) -> str:
    """One HTML file with a lesson and its runs in it; `runs` is the folder with the runs."""
    files = (runs / lesson.run).glob("*.json.gz")
    traces = {file.name.split(".")[0]: Trace.load(file).model_dump(mode="json") for file in files}
    options = f"lessons: [{safe(asdict(lesson))}], runs: ((all) => async () => all)({safe(traces)})"
    return page(lesson.title, HOST.format(call="learn", options=options))


README = """---
title: RestViz, lessons
emoji: 🌳
sdk: static
app_file: index.html
license: apache-2.0
---
Lessons on retrieval-based speculative decoding, and recorded runs. It needs no server but one for static files.
"""


def write_site(folder: Path) -> list[Path]:
    """Write a folder that any static host can serve; the files that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in (("player", PLAYER), ("runs", RUNS)):
        shutil.copytree(source, folder / name, dirs_exist_ok=True)
    shutil.copy(PLOTLY / "plotly.min.js", folder / "plotly.min.js")
    known = {name: {"methods": METHODS, "shown": run.shown} for name, run in BUNDLED.items()}
    told = safe([asdict(lesson) for lesson in lessons(RUNS)])
    read = f'(name) => RestViz.recorded(new URL("runs/", document.baseURI), name, {json.dumps(METHODS)})'
    options = {
        "index.html": ("learn", f'lessons: {told}, runs: {read}, plotly: RestViz.loadPlotly("plotly.min.js")'),
        "player.html": ("showRecorded", f'base: "", runs: {safe(known)}'),
    }
    (folder / "README.md").write_text(README, encoding="utf-8")
    scripts = "".join(f'<script src="player/{name}"></script>\n' for name in SCRIPTS)
    links = " ".join(f'<a href="{name}">{label}</a>' for name, label in PAGES.items())
    nav = f'<nav class="rv-site"><strong>RestViz</strong> {links}</nav>\n'
    for name, (call, values) in options.items():
        body = nav + scripts + HOST.format(call=call, options=values)
        (folder / name).write_text(page(f"RestViz: {PAGES[name]}", body, inlined=False), encoding="utf-8")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def main(folder: str = "site") -> None:
    files = write_site(Path(folder))
    size = sum(file.stat().st_size for file in files if file.name != "plotly.min.js")
    print(f"{folder}: {len(files)} files, {size / 1e6:.1f} MB without plotly.js (python -m http.server -d {folder})")


if __name__ == "__main__":
    main(*sys.argv[1:2])
