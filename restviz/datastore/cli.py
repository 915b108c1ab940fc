"""`python -m restviz datastore build | import-rest | merge | list | info | search`.

Tables on a terminal, tab-separated lines elsewhere, one JSON object with `--json`; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restviz.assets import cache_dir
from restviz.datastore import rest_idx
from restviz.datastore.build import SHARD_TOKENS, build, default_path, open_or_build
from restviz.datastore.combine import combine
from restviz.datastore.format import DatastoreError, Meta, read_meta, vocabulary_fingerprint
from restviz.datastore.search import Datastore
from restviz.datastore.sources import RECIPES, Recipe, load_recipe, recipe_from_files

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SHOWN = 3  # files left out for a reason that are named
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the command `datastore` with its subcommands; each sets `run`, a function from arguments to exit code."""
    datastore = subparsers.add_parser("datastore", help="build, describe, merge and search datastores")
    commands = datastore.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=text)
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.set_defaults(run=run)
        return parser

    parser = command("build", _build, "build a datastore from a recipe or from files")
    parser.add_argument(
        "what",
        nargs="+",
        metavar="RECIPE|FILE",
        help="a recipe's name or .toml; or files, folders, git checkouts, globs (quoted), and - for standard input",
    )
    parser.add_argument("--field", default="", help="where records hold their text, as messages.*.content")
    _tokenizer(parser, "--target", "model whose tokenizer to use")
    _place(parser, "the recipe's or the first file's")
    _scale(parser)

    parser = command("import-rest", _import_rest, "build a datastore from an .idx file of REST's own code")
    parser.add_argument("what", nargs="+", metavar="FILE.idx")
    _tokenizer(parser, "--tokenizer", "model whose tokenizer the index was made with")
    _place(parser, "the file's")
    _scale(parser)

    from restviz.train.cli import add_distil

    add_distil(commands)

    parser = command("merge", _merge, "make one datastore of several")
    parser.add_argument("datastores", nargs="+", metavar="NAME|DIR")
    parser.add_argument("--name", required=True, help="name of the new one")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to make it (default: the user's cache)")

    command("list", _list, "list the datastores that are built, and the recipes")

    parser = command("info", _info, "describe a datastore")
    parser.add_argument("datastore", metavar="NAME|DIR")
    parser.add_argument("--verify", action="store_true", help="compare every file with its sha256")

    parser = command("search", _search, "show what follows a text in a datastore, and where")
    parser.add_argument("text")
    parser.add_argument("--datastore", default="python-code", metavar="NAME|DIR", help="(default: %(default)s)")
    _tokenizer(parser, "--target", "model whose tokenizer to use")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="rows per table (default: %(default)s)")


def _tokenizer(parser: argparse.ArgumentParser, option: str, text: str) -> None:
    parser.add_argument(option, dest="target", default="default", metavar="NAME", help=f"{text} (default: %(default)s)")


def _place(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--name", help=f"name of the datastore (default: {name})")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to build it (default: the user's cache)")


def _scale(parser: argparse.ArgumentParser) -> None:
    scale = parser.add_argument_group("scale")
    scale.add_argument("--shard-tokens", type=_amount, default=SHARD_TOKENS, metavar="N", help="(default: 64M)")
    scale.add_argument("--max-memory", type=_amount, metavar="BYTES", help="of all processes together, as 4G")
    scale.add_argument("--workers", type=int, metavar="N", help="processes (default: what cores and memory allow)")
    scale.add_argument("--ray", metavar="ADDRESS", help="build on a Ray cluster: auto, ray://host:port, or local")


def _amount(text: str) -> int:
    """A number as 500M or 4G."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)B?", text.strip(), re.IGNORECASE)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text} is no amount: write it as 500M or 4G")
    return int(float(match[1]) * UNITS[match[2].upper()])


def _build(args: argparse.Namespace) -> int:
    only = args.what[0] if len(args.what) == 1 else ""
    is_word = re.fullmatch(r"[\w-]+", only) and only != "-" and not Path(only).exists()
    if only.endswith(".toml") or (RECIPES / f"{only}.toml").exists() or is_word:
        recipe = load_recipe(only)
        if args.field:
            recipe = replace(recipe, field=args.field)
        return _make(args, recipe)
    with _standard_input(args.what) as paths:
        return _make(args, recipe_from_files(paths, "stdin" if only == "-" else None, args.field))


@contextmanager
def _standard_input(paths: list[str]) -> Iterator[list[str]]:
    """The paths with `-` replaced by a file of what stdin holds, which is there meanwhile."""
    if "-" not in paths:
        yield paths
        return
    with tempfile.TemporaryDirectory() as folder:
        first = sys.stdin.buffer.peek(1)[:1] if hasattr(sys.stdin.buffer, "peek") else b""
        spooled = Path(folder) / ("stdin.jsonl" if first == b"{" else "stdin.txt")
        with open(spooled, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [str(spooled) if path == "-" else path for path in paths]


def _import_rest(args: argparse.Namespace) -> int:
    recipe = recipe_from_files(args.what)
    sources = [
        replace(source, extract=rest_idx.KIND, attribution="an index of REST's own code") for source in recipe.sources
    ]
    return _make(args, replace(recipe, sources=sources))


def _make(args: argparse.Namespace, recipe: Recipe) -> int:
    if args.name:
        recipe = replace(recipe, name=_free_name(args.name, recipe.name))
    tokenizer = _load_tokenizer(args.target)
    path = args.out or default_path(recipe.name, vocabulary_fingerprint(tokenizer))
    scale = {name: getattr(args, name) for name in ("shard_tokens", "max_memory", "workers", "ray")}
    if args.workers is not None and args.workers < 1:
        raise DatastoreError(f"{args.workers} workers cannot build anything: allow one or more.")
    built = build(recipe, tokenizer, path, tokenizer_name=args.target, **scale)
    meta = read_meta(path)
    if args.json:
        print(json.dumps({"built": built, **_described(path, meta)}))
        return 0
    state = "Built" if built else "Up to date:"
    print(f"{state} {meta.name}: {meta.tokens:,} tokens, {_count(meta.documents, 'document')}\n{path}")
    if meta.left_out:
        print(f"{_count(meta.skipped, 'file')} left out" if meta.skipped else "Read in part:")
        for line in _reasons(meta):
            print(f"  {line}")
    return 0


def _reasons(meta: Meta) -> list[str]:
    """What was left out: a line a reason, with some of the files."""
    names: dict[str, list[str]] = {}
    for name, reason in meta.left_out:
        names.setdefault(reason, []).append(name)
    return [
        f"{reason}: {', '.join(found[:SHOWN])}" + (f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else "")
        for reason, found in names.items()
    ]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _free_name(name: str, recipe: str = "") -> str:
    """A name that a user may give to a datastore.  Raises DatastoreError."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise DatastoreError(f"“{name}” cannot be a name: use letters, digits, dots, dashes and underscores.")
    if name != recipe and (RECIPES / f"{name}.toml").exists():
        raise DatastoreError(f"“{name}” is the name of a recipe of RestViz: choose another name.")
    return name


def _load_tokenizer(name: str) -> Tokenizer:
    from restviz.target.load import load_tokenizer

    return load_tokenizer(name)


def _merge(args: argparse.Namespace) -> int:
    folders = []
    for name in args.datastores:
        found = _found(name)
        if len(found) > 1:
            raise DatastoreError(f"There are several datastores {name}, for different tokenizers: name their folders.")
        folders += found
    name = _free_name(args.name)
    path = args.out or default_path(name, read_meta(folders[0]).tokenizer)
    meta = combine(folders, path, name)
    if args.json:
        print(json.dumps(_described(path, meta)))
    else:
        print(f"Merged into {name}: {meta.tokens:,} tokens, {_count(len(meta.shards), 'shard')}\n{path}")
    return 0


def _list(args: argparse.Namespace) -> int:
    built = []
    for path in sorted(p.parent for p in (cache_dir() / "datastores").glob("*/meta.json")):
        try:
            built.append((path, read_meta(path)))
        except DatastoreError as error:
            print(f"restviz: {error}", file=sys.stderr)
    recipes = [load_recipe(path.stem) for path in sorted(RECIPES.glob("*.toml"))]
    if args.json:
        known = [{"name": recipe.name, "title": recipe.title} for recipe in recipes]
        print(json.dumps({"built": [_described(path, meta) for path, meta in built], "recipes": known}))
        return 0
    rows = [(m.name, m.tokenizer_name, f"{m.tokens:,}", f"{_size(m) / 1e6:,.1f} MB", path) for path, m in built]
    _table("Built", ("name", "tokenizer", "tokens", "size", "path"), rows)
    _table("Recipes", ("name", "title"), [(recipe.name, recipe.title) for recipe in recipes])
    return 0


def _size(meta: Meta) -> int:
    return sum(array["size"] for shard in meta.shards for array in shard["arrays"].values())


def _described(path: Path, meta: Meta) -> dict[str, Any]:
    """A datastore for programs."""
    plain = ("name", "title", "description", "tokenizer_name", "tokenizer", "vocab_size", "tokens", "documents")
    more = {"bytes": _size(meta), "shards": len(meta.shards), "content": meta.content, "path": str(path)}
    rest = {name: getattr(meta, name) for name in ("sources", "skipped", "left_out", "parameters")}
    return {name: getattr(meta, name) for name in plain} | more | rest


def _found(name: str) -> list[Path]:
    """The folders of the datastores of this name.  Raises DatastoreError when there are none."""
    found = [Path(name)] if (Path(name) / "meta.json").exists() else []
    if not found and re.fullmatch(r"[\w.-]+", name):
        found = sorted(p.parent for p in (cache_dir() / "datastores").glob(f"{name}-*/meta.json"))
        found = [path for path in found if re.fullmatch(re.escape(name) + "-[0-9a-f]{12}", path.name)]
    if not found:
        raise DatastoreError(f"There is no datastore {name}: build it with “python -m restviz datastore build”.")
    return found


def _info(args: argparse.Namespace) -> int:
    described = []
    for path in _found(args.datastore):
        store = Datastore.open(path)
        meta = store.meta
        if args.verify:
            store.verify()
        if args.json:
            described.append(_described(path, meta) | {"verified": args.verify})
            continue
        rows = [
            ("path", path),
            ("title", meta.title),
            ("description", meta.description),
            ("tokenizer", f"{meta.tokenizer_name} {meta.tokenizer[:12]}".strip()),
            ("vocabulary", f"{meta.vocab_size:,} ids, {meta.width} bytes each"),
            ("tokens", f"{meta.tokens:,}"),
            ("documents", f"{meta.documents:,} ({_count(meta.skipped, 'file')} left out)"),
            ("shards", len(meta.shards)),
            ("size", f"{_size(meta) / 1e6:,.1f} MB"),
            ("content", meta.content[:12]),
            ("verified", "every sha256 is right" if args.verify else "sizes are right"),
        ]
        for source in meta.sources:
            rows.append(
                ("source", f"{source['asset']} — {source['tokens']:,} tokens, {source['documents']:,} documents")
            )
            rows.append(("licence", f"{source['licence']}; {source['attribution']}"))
        rows += [("left out", line) for line in _reasons(meta)]
        _table(meta.name, ("", ""), rows)
    if args.json:
        print(json.dumps(described[0] if len(described) == 1 else described))
    return 0


def _search(args: argparse.Namespace) -> int:
    tokenizer = _load_tokenizer(args.target)
    store = open_or_build(args.datastore, tokenizer, tokenizer_name=args.target)
    ids = tokenizer.encode(args.text, add_special_tokens=False).ids
    if not ids:
        raise DatastoreError("The text to search for is empty.")

    def show(tokens: Iterable[int]) -> str:
        return tokenizer.decode(list(tokens), skip_special_tokens=False)

    following = store.next_tokens(ids)
    n, hits = following.match_length, following.hits
    places = store.locate(ids[len(ids) - n :], tokenizer, limit=args.limit)
    if args.json:
        found = zip(following.tokens[: args.limit].tolist(), following.counts[: args.limit].tolist(), strict=True)
        next_tokens = [{"token": token, "text": show([token]), "count": count} for token, count in found]
        answer = {"datastore": store.meta.name, "match": show(ids[len(ids) - n :]), "match_length": n, "hits": hits}
        answer |= {"next": next_tokens, "ended": following.ended, "places": [asdict(p) for p in places.locations]}
        print(json.dumps(answer))
        return 0
    if not n:
        print(f"Nothing that the text ends in occurs in {store.meta.name}.")
        return 0
    print(f"Longest match: the last {n} of {len(ids)} tokens, “{_visible(show(ids[-n:]))}”, {hits:,} hits.")
    table = zip(following.tokens[: args.limit].tolist(), following.counts.tolist(), strict=False)
    rows = [(_visible(show([token])), token, f"{count:,}", f"{count / hits:.1%}") for token, count in table]
    if following.ended:
        rows.append(("(end of document)", "", f"{following.ended:,}", f"{following.ended / hits:.1%}"))
    _table(f"Next token ({len(following.tokens):,} different)", ("token", "id", "count", "share"), rows)
    rows = [
        (f"{place.path}:{place.line}", *map(_visible, (place.before, place.match, place.after)))
        for place in places.locations
    ]
    _table(f"{len(rows)} of {places.total:,} places", ("file:line", "before", "match", "after"), rows)
    return 0


def _visible(text: str) -> str:
    return text.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple]) -> None:
    if not sys.stdout.isatty():
        print(f"\n{title}")
        if any(columns):
            print("\t".join(columns))
        for row in rows:
            print("\t".join(map(str, row)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", show_header=any(columns))
    for column in columns:
        keep_end = column == "before"  # of what stands before the match, the end is what matters
        table.add_column(column, justify="right" if keep_end or column in ("id", "count", "share") else "left")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)
