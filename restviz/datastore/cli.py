"""`python -m restviz datastore build | info | search`: tables on a terminal, tab-separated lines elsewhere."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from restviz.assets import cache_dir
from restviz.datastore.build import build, default_path, open_or_build
from restviz.datastore.format import DatastoreError, vocabulary_fingerprint
from restviz.datastore.search import Datastore
from restviz.datastore.sources import RECIPES, load_recipe, recipe_from_files


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the command `datastore` with its subcommands; each sets `run`, a function from arguments to exit code."""
    datastore = subparsers.add_parser("datastore", help="build, describe and search datastores")
    commands = datastore.add_subparsers(required=True, metavar="COMMAND")

    parser = commands.add_parser("build", help="build a datastore from a recipe or from files")
    parser.add_argument("what", nargs="+", metavar="RECIPE|FILE", help="a recipe's name or .toml, or files and folders")
    parser.add_argument("--target", default="default", help="model whose tokenizer to use (default: %(default)s)")
    parser.add_argument("--name", help="name of the datastore (default: the recipe's or the first file's)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to build it (default: the user's cache)")
    parser.set_defaults(run=_build)

    from restviz.train.cli import add_distil

    add_distil(commands)

    parser = commands.add_parser("info", help="describe a datastore")
    parser.add_argument("datastore", metavar="NAME|DIR")
    parser.add_argument("--verify", action="store_true", help="compare every file with its sha256")
    parser.set_defaults(run=_info)

    parser = commands.add_parser("search", help="show what follows a text in a datastore, and where")
    parser.add_argument("text")
    parser.add_argument("--datastore", default="python-code", metavar="NAME|DIR", help="(default: %(default)s)")
    parser.add_argument("--target", default="default", help="model whose tokenizer to use (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="rows per table (default: %(default)s)")
    parser.set_defaults(run=_search)


def _build(args: argparse.Namespace) -> int:
    from restviz.target.load import load_tokenizer

    only = args.what[0] if len(args.what) == 1 else ""
    is_word = re.fullmatch(r"[\w-]+", only) and not Path(only).exists()
    is_recipe = only.endswith(".toml") or (RECIPES / f"{only}.toml").exists() or is_word
    recipe = load_recipe(only) if is_recipe else recipe_from_files(args.what)
    if args.name:
        if not re.fullmatch(r"\w[\w.-]*", args.name):
            raise DatastoreError(f"“{args.name}” cannot be a name: use letters, digits, dots, dashes and underscores.")
        if args.name != recipe.name and (RECIPES / f"{args.name}.toml").exists():
            raise DatastoreError(f"“{args.name}” is the name of a recipe of RestViz: choose another name.")
        recipe = replace(recipe, name=args.name)
    tokenizer = load_tokenizer(args.target)
    path = args.out or default_path(recipe.name, vocabulary_fingerprint(tokenizer))
    built = build(recipe, tokenizer, path, tokenizer_name=args.target)
    meta = Datastore.open(path).meta
    skipped = f", {meta.skipped:,} files that are empty or no text skipped" if meta.skipped else ""
    state, documents = "Built" if built else "Up to date:", "document" if meta.documents == 1 else "documents"
    print(f"{state} {meta.name}: {meta.tokens:,} tokens, {meta.documents:,} {documents}{skipped}\n{path}")
    return 0


def _info(args: argparse.Namespace) -> int:
    found = [Path(args.datastore)] if (Path(args.datastore) / "meta.json").exists() else []
    if not found and re.fullmatch(r"[\w.-]+", args.datastore):
        found = sorted(p.parent for p in (cache_dir() / "datastores").glob(f"{args.datastore}-*/meta.json"))
    if not found:
        raise DatastoreError(
            f"There is no datastore {args.datastore}: build it with “python -m restviz datastore build”."
        )
    for path in found:
        store = Datastore.open(path)
        meta = store.meta
        if args.verify:
            store.verify()
        size = sum(array["size"] for shard in meta.shards for array in shard["arrays"].values())
        rows = [
            ("path", path),
            ("title", meta.title),
            ("description", meta.description),
            ("tokenizer", f"{meta.tokenizer_name} {meta.tokenizer[:12]}".strip()),
            ("vocabulary", f"{meta.vocab_size:,} ids, {meta.width} bytes each"),
            ("tokens", f"{meta.tokens:,}"),
            ("documents", f"{meta.documents:,} ({meta.skipped:,} files skipped)"),
            ("shards", len(meta.shards)),
            ("size", f"{size / 1e6:,.1f} MB"),
            ("content", meta.content[:12]),
            ("verified", "every sha256 is right" if args.verify else "sizes are right"),
        ]
        for source in meta.sources:
            rows.append(
                ("source", f"{source['asset']} — {source['tokens']:,} tokens, {source['documents']:,} documents")
            )
            rows.append(("licence", f"{source['licence']}; {source['attribution']}"))
        _table(meta.name, ("", ""), rows)
    return 0


def _search(args: argparse.Namespace) -> int:
    from restviz.target.load import load_tokenizer

    tokenizer = load_tokenizer(args.target)
    store = open_or_build(args.datastore, tokenizer, tokenizer_name=args.target)
    ids = tokenizer.encode(args.text, add_special_tokens=False).ids
    if not ids:
        raise DatastoreError("The text to search for is empty.")

    def show(tokens: Iterable[int]) -> str:
        return tokenizer.decode(list(tokens), skip_special_tokens=False)

    following = store.next_tokens(ids)
    n, hits = following.match_length, following.hits
    if not n:
        print(f"Nothing that the text ends in occurs in {store.meta.name}.")
        return 0
    print(f"Longest match: the last {n} of {len(ids)} tokens, “{_visible(show(ids[-n:]))}”, {hits:,} hits.")
    table = zip(following.tokens[: args.limit].tolist(), following.counts.tolist(), strict=False)
    rows = [(_visible(show([token])), token, f"{count:,}", f"{count / hits:.1%}") for token, count in table]
    if following.ended:
        rows.append(("(end of document)", "", f"{following.ended:,}", f"{following.ended / hits:.1%}"))
    _table(f"Next token ({len(following.tokens):,} different)", ("token", "id", "count", "share"), rows)
    places = store.locate(ids[-n:], tokenizer, limit=args.limit)
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
