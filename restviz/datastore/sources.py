"""What goes into a datastore: recipes (TOML) and plain files, read as a stream of documents.

A recipe:

    title = "…"                         one line for people
    description = "…"
    split = "file"                      a document is a file; "record": a JSON-lines file's record (.jsonl, .jsonl.gz)
    field = "answer"                    with "record": the field that holds the text
    [[source]]                          one or more
    asset = "stdlib:"                   see `restviz.assets`
    sha256 = "…"                        optional, for an asset that is one file
    include = ["**/*.py"]               optional, default everything; `**/` is any number of folders
    exclude = ["**/test/**"]            optional
    licence = "PSF-2.0"
    attribution = "…"

Files that are no UTF-8 text, that hold a NUL character, or that are empty are skipped and counted; of a file with
records, those that have no such text are skipped.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import restviz
from restviz.assets import fetch
from restviz.datastore.format import DatastoreError

RECIPES = Path(restviz.__file__).parent.parent / "datastores"
HIDDEN = [".*/**", "**/.*/**", ".*", "**/.*", "**/__pycache__/**", "__pycache__/**"]


@dataclass(frozen=True)
class Source:
    asset: str
    licence: str
    attribution: str
    sha256: str | None = None
    include: list[str] = field(default_factory=lambda: ["**/*"])
    exclude: list[str] = field(default_factory=list)

    def files(self) -> list[tuple[str, Path]]:
        """`(name, path)` of the source's files in order of name: what a datastore shows, and where the file is.

        Raises AssetError when the asset cannot be had.
        """
        root = fetch(self.asset, self.sha256)
        if root.is_file():
            return [(root.name, root)]
        include, exclude = _pattern(self.include), _pattern(self.exclude)
        found = []
        for folder, folders, names in os.walk(root):
            prefix = Path(folder).relative_to(root).as_posix() + "/" if Path(folder) != root else ""
            # an excluded folder is not walked: site-packages may hold a hundred thousand files
            folders[:] = [name for name in folders if not exclude.fullmatch(f"{prefix}{name}/")]
            found += [prefix + name for name in names]
        chosen = (name for name in sorted(found) if include.fullmatch(name) and not exclude.fullmatch(name))
        return [(name, root / name) for name in chosen if (root / name).is_file()]


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    description: str
    sources: list[Source]
    split: str = "file"
    field: str = ""

    def files(self) -> list[tuple[int, str, Path]]:
        """`(index of the source, name, path)` of every file."""
        return [(i, name, path) for i, source in enumerate(self.sources) for name, path in source.files()]


@dataclass(frozen=True, slots=True)
class Document:
    """A piece of text that matches and continuations stay within."""

    source: int
    path: str
    record: int  # number of the record in its file, from 1; 0 when the document is the whole file
    text: str


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


def recipe_from_files(paths: list[str], name: str | None = None) -> Recipe:
    """A recipe for files and folders of this machine; hidden files and byte code are left out.

    JSON-lines files alone are taken for answers as `distil` writes them.  Raises DatastoreError.
    """
    for path in paths:
        if not Path(path).exists():
            raise DatastoreError(f"{path} is neither a recipe nor a file or folder.")
    name = name or re.sub(r"[^\w.-]+", "-", Path(paths[0]).resolve().stem)
    sources = [Source(f"file:{Path(path).resolve()}", "unknown", "local files", exclude=HIDDEN) for path in paths]
    answers = {"split": "record", "field": "answer"} if all(".jsonl" in Path(path).name for path in paths) else {}
    return Recipe(_checked_name(name), name, f"Built from {len(paths)} local files or folders.", sources, **answers)


def read_documents(recipe: Recipe, source: int, name: str, path: Path) -> Iterator[Document]:
    """The documents of a file; none when it is not text or has none."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8")
        if recipe.split == "file":
            texts = [(0, text)]
        else:
            texts = [(i, _field(line, recipe.field)) for i, line in enumerate(text.split("\n"), 1)]
    except (OSError, EOFError, ValueError, zlib.error):
        return
    for record, text in texts:
        if isinstance(text, str) and text.strip() and "\0" not in text:
            yield Document(source, name, record, text)


def _field(line: str, name: str) -> object:
    """What a record's line holds under a name; None when there is nothing."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record.get(name) if isinstance(record, dict) else None


def signature(recipe: Recipe, files: list[tuple[int, str, Path]], *parameters: object) -> str:
    """Hash of a recipe, its files' names, sizes and modification times, and the build's parameters."""
    stats = [(source, name, (s := path.stat()).st_size, s.st_mtime_ns) for source, name, path in files]
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
        if value is not default and not (isinstance(value, kind) and strings):
            expected = "a list of strings" if kind is list else "a string"
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
            )
        )
    recipe = Recipe(
        name=_checked_name(name),
        title=take(raw, "", "title", str),
        description=take(raw, "", "description", str),
        sources=sources,
        split=take(raw, "", "split", str, "file"),
        field=take(raw, "", "field", str, ""),
    )
    if recipe.split not in ("file", "record"):
        raise DatastoreError(f"In the recipe {name}, “split” must be “file” or “record”, not “{recipe.split}”.")
    if (recipe.split == "record") != bool(recipe.field):
        raise DatastoreError(f'In the recipe {name}, “split = "record"” and “field” belong together.')
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
