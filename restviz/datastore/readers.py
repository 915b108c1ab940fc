"""The text of a file as documents, by the kind of file; what cannot be read says why, and the rest is read.

    .jsonl .ndjson            a document a record: the text at `field`
    .json                     the same, of an array of records (or one record)
    .csv .tsv .parquet        a document a row: the column `field`
    .html .htm .pdf           what a reader sees, as one document
    anything else             UTF-8 text, whole

All but .parquet and .pdf may be gzipped (.gz).  A `field` is a path with dots: `messages.*.content` is the content of
every message, a number picks from a list, and a list of strings is joined.  Without one, records are asked for `text`,
`content` and `answer`.  HTML, PDF and Parquet need Beautiful Soup, pypdf and pyarrow.
"""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

GIANT = 256 << 20  # bytes of a file that is one document; records may be as many as there are
FIELDS = ("text", "content", "answer")
LINES = (".jsonl", ".ndjson")
RECORDS = (*LINES, ".json", ".csv", ".tsv", ".parquet")

Read = Iterator[tuple[int, str]]  # number of the record from 1, or 0 for a whole file; its text
Tick = Callable[[int], None]  # told how many bytes of the file were read


class Unreadable(Exception):
    """Why a file, or the rest of it, was left out: a piece of a sentence."""


def suffix(name: str) -> str:
    """The ending that says what a file is: `.gz` is looked through."""
    return Path(name.lower().removesuffix(".gz")).suffix


def read(
    path: Path,
    name: str = "",
    field: str = "",
    *,
    extract: str = "",
    span: tuple[int, int, int] | None = None,
    tick: Tick = lambda size: None,
) -> Read:
    """The documents of a file, in order.

    `name` tells its kind when the path does not; `extract="docstrings"` takes those of a Python file.  `span` is a part
    of a file of lines: first byte, byte after the last, records before it.
    Raises Unreadable when there is something that cannot be read, after everything that can be was yielded.
    """
    kind = suffix(name or path.name)
    reader = {".csv": _rows, ".tsv": _rows, ".json": _array, ".parquet": _parquet}.get(kind, _whole)
    try:
        if kind in LINES:
            yield from _lines(path, field, span, tick)
        elif reader is _whole:
            yield from _whole(path, kind, extract)
        else:
            yield from _with_text(reader(path, kind), field)
        if kind not in LINES:
            tick(path.stat().st_size)
    except UnicodeDecodeError as error:
        raise Unreadable(f"no UTF-8 text (byte {error.object[error.start]:#04x} at {error.start:,})") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise Unreadable("a damaged gzip file") from None
    except (OSError, MemoryError) as error:
        raise Unreadable(f"not to be read ({getattr(error, 'strerror', None) or type(error).__name__})") from None


def texts(record: Any, field: str) -> list[str]:
    """The texts of a record at `field` that hold something."""
    if field:
        found = list(_at(record, field.split(".")))
    else:
        held = (record.get(name) for name in FIELDS) if isinstance(record, dict) else (record,)
        found = [next((value for value in held if isinstance(value, str)), "")]
    return [text for text in found if text.strip() and "\0" not in text]


def _at(value: Any, path: list[str]) -> Iterator[str]:
    if not path:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield "".join(value)
        return
    key, rest = path[0], path[1:]
    if isinstance(value, dict) and key in value:
        yield from _at(value[key], rest)
    elif isinstance(value, list):
        if key == "*":
            for item in value:
                yield from _at(item, rest)
        elif key.isdigit() and int(key) < len(value):
            yield from _at(value[int(key)], rest)


def _open(path: Path) -> BinaryIO:
    return gzip.open(path) if path.name.lower().endswith(".gz") else open(path, "rb")


def _with_text(records: Iterator[Any], field: str) -> Read:
    """The texts of records; raises Unreadable at the end when some had none."""
    number = empty = 0
    for number, record in enumerate(records, 1):
        found = texts(record, field)
        empty += not found
        for text in found:
            yield number, text
    _tell(empty, number, field)


def _tell(empty: int, of: int, field: str) -> None:
    if not of:
        raise Unreadable("empty")
    if empty:
        where = f"“{field}”" if field else "“text”, “content” or “answer” (name another with --field)"
        raise Unreadable(f"{empty:,} of {of:,} records have no text under {where}")


def _lines(path: Path, field: str, span: tuple[int, int, int] | None, tick: Tick) -> Read:
    start, stop, before = span or (0, 1 << 62, 0)
    number = empty = 0
    with _open(path) as file:
        file.seek(start)
        at, compressed = start, path.name.lower().endswith(".gz")
        while at < stop and (line := file.readline()):
            at += len(line)
            if not compressed:
                tick(len(line))
            if not line.strip():
                before += 1
                continue
            number += 1
            try:
                found = texts(json.loads(line), field)
            except (ValueError, RecursionError):
                found = []
            empty += not found
            for text in found:
                yield before + number, text
    if compressed:
        tick(path.stat().st_size)
    if number or not span:
        _tell(empty, number, field)


def _array(path: Path, kind: str) -> Iterator[Any]:
    with _open(path) as file:
        data = _decoded(file)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise Unreadable("no JSON") from None
    yield from value if isinstance(value, list) else [value]


def _rows(path: Path, kind: str) -> Iterator[dict]:
    csv.field_size_limit(GIANT)
    with _open(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        try:
            yield from csv.DictReader(text, delimiter="\t" if kind == ".tsv" else ",")
        except csv.Error as error:
            raise Unreadable(f"a damaged table ({error})") from None


def _parquet(path: Path, kind: str) -> Iterator[dict]:
    parquet = _library("pyarrow.parquet", "pyarrow")
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except (ValueError, OSError) as error:  # ArrowInvalid is a ValueError
        raise Unreadable(f"a damaged Parquet file ({str(error).splitlines()[0][:80]})") from None


def _whole(path: Path, kind: str, extract: str) -> Read:
    with _open(path) as file:
        data = file.read(GIANT + 1)
    if len(data) > GIANT:
        raise Unreadable(f"larger than {GIANT >> 20} MB as one document: cut it, or make it a .jsonl file")
    if kind == ".pdf":
        text = _pdf(data)
    elif b"\0" in data:
        raise Unreadable("binary (it holds a NUL character)")
    else:
        text = data.decode("utf-8")
    if kind in (".html", ".htm"):
        soup = _library("bs4", "beautifulsoup4").BeautifulSoup(text, "html.parser")
        for hidden in soup(["script", "style", "template", "noscript"]):
            hidden.decompose()
        text = "\n".join(line for line in soup.get_text("\n", strip=True).splitlines() if line.strip())
    if extract == "docstrings":
        text = _docstrings(text)
    if not text.strip():
        raise Unreadable("empty" if not extract else "without docstrings")
    yield 0, text


def _decoded(file: BinaryIO) -> str:
    return file.read().decode("utf-8-sig")


def _pdf(data: bytes) -> str:
    pypdf = _library("pypdf", "pypdf")
    try:
        return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages).replace("\0", "")
    except Exception as error:  # a damaged PDF raises nearly anything
        raise Unreadable(f"a PDF that cannot be read ({type(error).__name__})") from None


def _docstrings(text: str) -> str:
    """The docstrings of a Python file, in order."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        raise Unreadable("no Python that this Python can read") from None
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = sorted((n for n in ast.walk(tree) if isinstance(n, documented)), key=lambda n: getattr(n, "lineno", 0))
    return "\n\n".join(found for node in nodes if (found := ast.get_docstring(node)))


def _library(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise Unreadable(f"of a kind that needs “pip install {package}”") from None
