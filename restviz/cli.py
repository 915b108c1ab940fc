"""The command line: `python -m restviz COMMAND`.  Every command is a thin layer over the library."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from restviz.errors import RestvizError


def main(argv: list[str] | None = None) -> int:
    """Run a command; a RestvizError becomes one sentence on stderr and exit status 1."""
    parser = argparse.ArgumentParser(prog="restviz", description="See how retrieval-based speculative decoding works.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_prepare(commands)
    _add_generate(commands)
    _add_trace(commands)
    _add_lesson(commands)
    from restviz.datastore.cli import add_commands as add_datastore

    add_datastore(commands)
    from restviz.train.cli import add_train_head

    add_train_head(commands)
    _add_bench(commands)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for noisy in ("httpx", "huggingface_hub", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    try:
        return args.run(args) or 0
    except RestvizError as error:
        print(f"restviz: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("restviz: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """--target, --datastore, --device, --dtype, --attention."""
    parser.add_argument("--target", default="default", help="default, a hub id, or a model folder or GGUF file")
    parser.add_argument(
        "--datastore",
        action="append",
        help="recipe or folder of a datastore (default python-code, answers); may repeat",
    )
    parser.add_argument("--head", default="auto", help="EAGLE head: folder, hub id, auto (the target's own) or none")
    parser.add_argument("--assistant", default="", help="smaller model with the target's tokenizer, to draft with")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")
    parser.add_argument("--dtype", default="auto", help="auto, bf16, fp16, fp32")
    parser.add_argument("--attention", default="auto", help="auto, exact, fast")


def load_engine(args: argparse.Namespace):
    """The engine that the options of `add_engine_options` describe."""
    from restviz.api import PLACES, load
    from restviz.datastore import DATASTORES

    return load(args.target, args.datastore or DATASTORES, **{name: getattr(args, name) for name in PLACES})


def add_settings(parser: argparse.ArgumentParser) -> None:
    """An option for every field of `Settings`; what is not given keeps its default there."""
    from restviz.settings import Settings

    group = parser.add_argument_group("settings")
    for name, field in Settings.model_fields.items():
        options = [f"--{name.replace('_', '-')}"]
        text = f"{field.description} (default {field.default})".replace("%", "%%")
        if field.annotation is bool:
            group.add_argument(*options, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
        else:
            kind = field.annotation if isinstance(field.annotation, type) else str
            group.add_argument(*options, type=kind, default=argparse.SUPPRESS, metavar="X", help=text)


def settings_from(args: argparse.Namespace):
    """The `Settings` that the options of `add_settings` describe.  Raises SettingsError."""
    from restviz.settings import Settings

    return Settings(**{name: getattr(args, name) for name in Settings.model_fields if hasattr(args, name)})


def _add_prepare(commands) -> None:
    parser = commands.add_parser("prepare", help="fetch the default target and build the default datastores, once")

    def run(args: argparse.Namespace) -> None:
        from restviz.datastore import DATASTORES, open_or_build
        from restviz.target.load import DEFAULT_NAME, load_tokenizer, resolve

        print(f"target     {DEFAULT_NAME}", flush=True)
        print(f"           {resolve().folder}", flush=True)
        for name in DATASTORES:
            print(f"datastore  {name}", flush=True)
            print(f"           {open_or_build(name, load_tokenizer(), tokenizer_name=DEFAULT_NAME).path}", flush=True)

    parser.set_defaults(run=run)


def _add_generate(commands) -> None:
    parser = commands.add_parser("generate", help="answer a prompt and say how it went")
    parser.add_argument("prompt", help="the prompt, or - to read it from standard input")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the run to FILE (.json or .json.gz)")
    parser.add_argument("--show", action="store_true", help="print the run with step seams instead of the plain text")
    add_engine_options(parser)
    add_settings(parser)

    def run(args: argparse.Namespace) -> None:
        from restviz.show import print_summary, print_trace

        settings = settings_from(args)
        if args.trace and (args.trace.is_dir() or not args.trace.resolve().parent.is_dir()):
            why = "it is a folder" if args.trace.is_dir() else "its folder does not exist"
            raise RestvizError(f"{args.trace} cannot be written: {why}.")
        prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
        if not prompt.strip():
            raise RestvizError("The prompt is empty: write something for the model to continue.")
        trace = load_engine(args).generate(prompt, settings)
        if args.show:
            print_trace(trace)
        else:
            print(trace.text)
        print_summary(trace, sys.stderr)
        if args.trace:
            try:
                trace.save(args.trace)
            except OSError as error:
                raise RestvizError(f"{args.trace} cannot be written: {error.strerror}.") from error

    parser.set_defaults(run=run)


def _add_trace(commands) -> None:
    group = commands.add_parser("trace", help="look at recorded runs").add_subparsers(required=True, metavar="COMMAND")
    parser = group.add_parser("show", help="print a run as coloured text with step seams")
    parser.add_argument("file", type=Path)

    def run(args: argparse.Namespace) -> None:
        from restviz.show import print_summary, print_trace
        from restviz.trace import Trace

        trace = Trace.load(args.file)
        print_trace(trace)
        print_summary(trace, sys.stdout)

    parser.set_defaults(run=run)
    parser = group.add_parser("export", help="write a web page with the player and the run in it, for any browser")
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE", help="the trace of an autoregressive run to compare with"
    )
    parser.add_argument(
        "--other", type=Path, action="append", default=[], metavar="FILE", help="one more run of the prompt; may repeat"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default: the trace's name with .html)")

    def write(args: argparse.Namespace) -> None:
        from restviz.trace import Trace
        from restviz.ui.export import export

        out = args.out or args.file.with_name(args.file.name.split(".json")[0] + ".html")
        baseline = args.baseline and Trace.load(args.baseline)
        page = export(Trace.load(args.file), baseline, map(Trace.load, args.other))
        _write_page(out, page)

    parser.set_defaults(run=write)
    parser = group.add_parser("schema", help="what is in a trace, as Markdown")

    def tell(args: argparse.Namespace) -> None:
        from restviz.schema import described

        print(described(), end="")

    parser.set_defaults(run=tell)


def _write_page(out: Path, page: str) -> None:
    """Write a page and say where it is.  Raises RestvizError."""
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise RestvizError(f"{out} cannot be written: {error.strerror}.") from error
    print(out)


def _add_lesson(commands) -> None:
    group = commands.add_parser("lesson", help="walkthroughs of recorded runs").add_subparsers(
        required=True, metavar="COMMAND"
    )
    parser = group.add_parser("export", help="write a lesson and its runs as one web page that needs no network")
    parser.add_argument("file", help="a Markdown file (see docs/lessons.md), or the name of a lesson of RestViz")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="folder with the runs (default: those of RestViz)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default: the lesson's name with .html)")

    def run(args: argparse.Namespace) -> None:
        from restviz.ui.bundled import RUNS
        from restviz.ui.lesson import LESSONS, read_lesson
        from restviz.ui.site import lesson_page

        own = LESSONS / f"{args.file}.md"
        runs = args.runs or RUNS
        lesson = read_lesson(own if own.exists() else Path(args.file), runs)
        out = args.out or Path(f"{lesson.name}.html")
        _write_page(out, lesson_page(lesson, runs))

    parser.set_defaults(run=run)


def _add_bench(commands) -> None:
    group = commands.add_parser("bench", help="measure").add_subparsers(required=True, metavar="COMMAND")
    from restviz.bench import build, head, retrieval, speed

    for commands in (build, retrieval, speed, head):
        commands.add_commands(group)
