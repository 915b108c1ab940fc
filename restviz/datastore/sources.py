"""What goes into a datastore: recipes (TOML) and a user's own files, as a list of files to read or streams.

A recipe:

    title = "…"                         one line for people
    description = "…"
    field = "messages.*.content"        optional: where records hold their text (see `restviz.datastore.readers`)
    [[source]]                          one or more
    asset = "stdlib:"                   see `restviz.assets`, or dataset:org/name@revision?split=train&data_dir=…, which
                                        is streamed from the hub with the package `datasets`
    sha256 = "…"                        optional, for an asset that is one file or wheel
    include = ["**/*.py"]               optional, default everything; `**/` is any number of folders
    exclude = ["**/test/**"]            optional
    extract = "docstrings"              optional: of Python files; "rest-idx": the file is an index of REST's own code
    limit = 100000                      optional: records of a dataset at most
    optional = true                     optional: goes without this source when it cannot be had
    licence = "PSF-2.0"
    attribution = "…"
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import restviz
from restviz.assets import AssetError, fetch
from restviz.datastore import readers
from restviz.datastore.format import DatastoreError

RECIPES = Path(restviz.__file__).parent.parent / "datastores"
HIDDEN = [".*/**", "**/.*/**", ".*", "**/.*", "**/__pycache__/**", "__pycache__/**"]
EXTRACTS = ("", "docstrings", "rest-idx")
DATASET = "dataset:"  # the scheme of what is streamed
MAGIC = re.compile(r"[*?]")


@dataclass(frozen=True)
class Source:
    asset: str
    licence: str
    attribution: str
    sha256: str | None = None
    include: list[str] = field(default_factory=lambda: ["**/*"])
    exclude: list[str] = field(default_factory=list)
    extract: str = ""
    limit: int = 0
    optional: bool = False

    def files(self) -> list[tuple[str, Path | None]]:
        """`(name, path)` of the source's files in order of name: what a datastore shows, and where the file is.

        Of a git checkout the files that git does not ignore.  A dataset that is streamed is one, without a path.
        Raises AssetError when the asset cannot be had.
        """
        if self.asset.startswith(DATASET):
            return [(self.asset.removeprefix(DATASET), None)]
        root = fetch(self.asset, self.sha256)
        if root.is_file():
            return [(root.name, root)]
        include, exclude = _pattern(self.include), _pattern(self.exclude)
        found = _tracked(root)
        if found is None:
            found = []
            for folder, folders, names in os.walk(root):
                prefix = Path(folder).relative_to(root).as_posix() + "/" if Path(folder) != root else ""
                # an excluded folder is not walked: site-packages may hold a hundred thousand files
                folders[:] = [name for name in folders if not exclude.fullmatch(f"{prefix}{name}/")]
                found += [prefix + name for name in names]
        chosen = (name for name in sorted(found) if include.fullmatch(name) and not exclude.fullmatch(name))
        return [(name, root / name) for name in chosen if (root / name).is_file()]


def _tracked(root: Path) -> list[str] | None:
    """The files of a git checkout that git does not ignore; None when it is none, or git is not there."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in listed.decode(errors="surrogateescape").split("\0") if name]


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    description: str
    sources: list[Source]
    field: str = ""

    def files(self) -> list[tuple[int, str, Path | None]]:
        """`(index of the source, name, path)` of every file.

        A source that is `optional` and cannot be had is left out, which is logged.
        """
        found: list[tuple[int, str, Path | None]] = []
        for i, source in enumerate(self.sources):
            try:
                found += [(i, name, path) for name, path in source.files()]
            except AssetError as error:
                if not source.optional:
                    raise
                logging.getLogger("restviz").warning("%s goes without %s: %s", self.name, source.asset, error)
        return found


def load_recipe(name: str) -> Recipe:
    """The recipe in the file `name`, or the one of that name in the repository's `datastores/`.

    Raises DatastoreError when there is none or it is not one.
    """
    path = Path(name) if name.endswith(".toml") else RECIPES / f"{name}.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        known = ", ".join(sorted(p.stem for p in RECIPES.glob("*.toml"))) or "none"
        raise DatastoreError(f"There is no datastore and no recipe {name} (known recipes: {known}).") from None
    except ValueError as error:
        raise DatastoreError(f"The recipe {path.name} is not valid TOML: {error}.") from None
    return _parse(path.stem, raw, path.parent.resolve())


def recipe_from_files(paths: list[str], name: str | None = None, field: str = "") -> Recipe:
    """A recipe for files, folders, git checkouts and globs of this machine; hidden files and byte code are left out.

    `field`: where records hold their text (see `restviz.datastore.readers`).  Raises DatastoreError.
    """
    sources = [_local(str(path)) for path in paths]
    name = name or re.sub(r"[^\w.-]+", "-", Path(sources[0].asset.removeprefix("file:")).resolve().stem)
    return Recipe(_checked_name(name), name, f"Built from {_some(paths)}.", sources, field)


def _some(paths: list[str]) -> str:
    names = [Path(path).name or str(path) for path in paths[:3]]
    return ", ".join(names) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _local(path: str) -> Source:
    """The source that a path or a glob on the command line stands for."""
    include = ["**/*"]
    root = Path(path).expanduser()
    if not root.exists() and MAGIC.search(path):
        base = Path(*takewhile(lambda part: not MAGIC.search(part), root.parts))
        include, root = [root.relative_to(base).as_posix()], base
    if not root.exists():
        raise DatastoreError(f"{path} is neither a recipe nor a file or folder.")
    return Source(f"file:{root.resolve()}", "unknown", "local files", include=include, exclude=HIDDEN)


@dataclass(frozen=True, slots=True)
class Document:
    """A piece of text that matches and continuations stay within."""

    source: int
    path: str
    record: int  # number of the record in its file, from 1; 0 when the document is the whole file
    text: str


def read_documents(recipe: Recipe, source: int, name: str, path: Path | None) -> Iterator[Document]:
    """The documents of a file of the recipe; what cannot be read is left out."""
    chosen = recipe.sources[source]
    try:
        texts = (
            stream(chosen, recipe.field)
            if path is None
            else readers.read(path, name, recipe.field, extract=chosen.extract)
        )
        for record, text in texts:
            yield Document(source, name, record, text)
    except readers.Unreadable:
        return


def stream(source: Source, field: str) -> readers.Read:
    """The texts of a dataset on the hub, as they arrive.  Raises AssetError."""
    name, _, query = source.asset.removeprefix(DATASET).partition("?")
    name, _, revision = name.partition("@")
    try:
        from datasets import load_dataset
    except ImportError:
        raise AssetError(f"Streaming {name} needs the package datasets: pip install datasets.") from None
    options: dict[str, Any] = {"split": "train", **dict(parse_qsl(query))}
    number = 0
    try:
        for record in load_dataset(name, streaming=True, revision=revision or None, **options):
            if source.limit and number == source.limit:
                return
            number += 1
            for text in readers.texts(record, field):
                yield number, text
    except GeneratorExit:
        raise
    except Exception as error:  # the hub client raises many kinds, and httpx's on top
        raise AssetError(
            f"{name} could not be streamed from the hub ({type(error).__name__}): check that this machine reaches the "
            "hub and that you may read the dataset (“hf auth login” for those that ask who you are)."
        ) from error


def signature(recipe: Recipe, files: list[tuple[int, str, Path | None]], *parameters: object) -> str:
    """Hash of a recipe, its files' names, sizes and modification times, and the build's parameters."""
    stats = [
        (source, name, *(((s := path.stat()).st_size, s.st_mtime_ns) if path else ())) for source, name, path in files
    ]
    return hashlib.sha256(json.dumps([asdict(recipe), stats, parameters]).encode()).hexdigest()


def _placed(asset: str, folder: Path) -> str:
    """A `file:` asset relative to the recipe's folder."""
    scheme, _, path = asset.partition(":")
    return f"file:{folder / Path(path).expanduser()}" if scheme == "file" else asset


def _parse(name: str, raw: dict, folder: Path) -> Recipe:
    def take(table: dict, where: str, key: str, kind: type, default: object = ...) -> object:
        value = table.pop(key, default)
        if value is ...:
            raise DatastoreError(f"The recipe {name} has no “{key}”{where}.")
        strings = kind is not list or (isinstance(value, list) and all(isinstance(item, str) for item in value))
        right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if value is not default and not (right and strings):
            expected = {list: "a list of strings", int: "a number", bool: "true or false"}.get(kind, "a string")
            raise DatastoreError(f"In the recipe {name}, “{key}”{where} must be {expected}.")
        return value

    tables = raw.pop("source", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise DatastoreError(f"The recipe {name} has no [[source]].")
    sources = []
    for i, table in enumerate(tables, 1):
        where = f" in source {i}"
        sources.append(
            Source(
                asset=_placed(take(table, where, "asset", str), folder),
                licence=take(table, where, "licence", str),
                attribution=take(table, where, "attribution", str),
                sha256=take(table, where, "sha256", str, None),
                include=take(table, where, "include", list, ["**/*"]),
                exclude=take(table, where, "exclude", list, []),
                extract=take(table, where, "extract", str, ""),
                limit=take(table, where, "limit", int, 0),
                optional=take(table, where, "optional", bool, False),
            )
        )
    recipe = Recipe(
        name=_checked_name(name),
        title=take(raw, "", "title", str),
        description=take(raw, "", "description", str),
        sources=sources,
        field=take(raw, "", "field", str, ""),
    )
    for i, source in enumerate(sources, 1):
        if source.extract not in EXTRACTS:
            raise DatastoreError(
                f"In the recipe {name}, “extract” in source {i} must be “docstrings” or “rest-idx”, not "
                f"“{source.extract}”."
            )
    for table, where in [(raw, ""), *((table, f" in source {i}") for i, table in enumerate(tables, 1))]:
        for key in table:
            raise DatastoreError(f"The recipe {name} has an unknown key “{key}”{where}.")
    return recipe


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise DatastoreError(f"“{name}” is no name for a datastore: use letters, digits, “.”, “_” and “-”.")
    return name


def _pattern(globs: list[str]) -> re.Pattern:
    """One regular expression for paths with `/`: `**/` any number of folders, `**` anything, `*` and `?` no `/`."""
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    translated = ["".join(parts.get(p) or re.escape(p) for p in re.split(r"(\*\*/|\*\*|\*|\?)", g)) for g in globs]
    return re.compile("|".join(translated) or r"(?!)")
