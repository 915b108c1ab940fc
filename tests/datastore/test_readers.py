"""Every kind of file gives its text, and what cannot be read says why after what can."""

from __future__ import annotations

import gzip
import io
import json
import sys

import pytest

from restviz.datastore import readers
from restviz.datastore.readers import Unreadable, read, texts


def found(path, **options) -> tuple[list[tuple[int, str]], str]:
    """The documents, and what is said of the rest."""
    documents = []
    try:
        for document in read(path, **options):
            documents.append(document)
    except Unreadable as why:
        return documents, str(why)
    return documents, ""


@pytest.fixture
def write(tmp_path):
    def write(name: str, data: bytes | str):
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "noending"])
def test_text_is_one_document(write, name):
    assert found(write(name, "é\n")) == ([(0, "é\n")], "")
    assert found(write(name + ".gz", gzip.compress(b"x"))) == ([(0, "x")], "")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"ab\0cd", "binary (it holds a NUL character)"),
        ("cœur".encode("latin-1", "replace") + b"\xe9", "no UTF-8 text (byte 0xe9 at 4)"),
    ],
)
def test_what_is_no_text_says_why(write, data, why):
    assert found(write("a.txt", data)) == ([], why)


def test_giants_and_unreadable_files(write, monkeypatch, tmp_path):
    monkeypatch.setattr(readers, "GIANT", 10)
    documents, why = found(write("a.txt", "x" * 11))
    assert (documents, why) == ([], "larger than 0 MB as one document: cut it, or make it a .jsonl file")
    assert found(tmp_path / "nothing.txt") == ([], "not to be read (No such file or directory)")
    assert found(write("a.txt.gz", b"\x1f\x8bnot gzip"))[1] == "a damaged gzip file"
    assert found(write("b.txt.gz", gzip.compress(b"x" * 9)[:-9]))[1] == "a damaged gzip file"


def test_records(write):
    lines = [{"text": "one"}, {"text": " "}, {"other": 1}, {"content": "two"}, ["x"], {"answer": "th\u2028ree"}]
    data = "\n".join(map(json.dumps, lines)) + "\n\nno JSON\n" + json.dumps({"text": "end"})
    documents, why = found(write("a.jsonl", data))
    assert documents == [(1, "one"), (4, "two"), (6, "th\u2028ree"), (9, "end")]
    assert why == "4 of 8 records have no text under “text”, “content” or “answer” (name another with --field)"
    packed = write("a.ndjson.gz", gzip.compress(data.encode()))
    assert found(packed)[0] == documents
    assert found(write("b.json", json.dumps(lines)))[0] == documents[:3]
    assert found(write("c.json", json.dumps(lines[0]))) == ([(1, "one")], "")
    assert found(write("d.json", "[1"))[1] == "no JSON"
    assert found(write("e.jsonl", ""))[1] == "empty"


def test_a_span_of_lines_gives_its_records_with_their_numbers(write):
    lines = [json.dumps({"text": f"{i}"}) + "\n" for i in range(1, 6)]
    path, size = write("a.jsonl", "".join(lines)), len(lines[0])
    read_bytes = []
    documents, _ = found(path, span=(2 * size, 4 * size, 2), tick=read_bytes.append)
    assert documents == [(3, "3"), (4, "4")]
    assert sum(read_bytes) == 2 * size


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("messages.*.content", ["a", "b"]),
        ("messages.1.content", ["b"]),
        ("messages.7.content", []),
        ("parts", ["xy"]),
        ("deep.er", ["z"]),
        ("deep", []),
        ("number", []),
        ("blank", []),
        ("nul", []),
    ],
)
def test_fields(field, expected):
    record = {"messages": [{"content": "a"}, {"content": "b"}, {}], "parts": ["x", "y"], "deep": {"er": "z"}}
    assert texts(record | {"number": 3, "blank": " ", "nul": "a\0b"}, field) == expected


def test_tables(write):
    assert found(write("a.csv", 'id,text\n1,one\n2,\n3,"th\nree"\n')) == (
        [(1, "one"), (3, "th\nree")],
        "1 of 3 records have no text under “text”, “content” or “answer” (name another with --field)",
    )
    assert found(write("a.tsv", "id\tbody\n1\tone\n"), field="body") == ([(1, "one")], "")
    assert found(write("b.csv", "id,text\n1,\xe9\n".encode("latin-1")))[1].startswith("no UTF-8 text")
    assert found(write("c.csv", b'text\n"' + b"x" * 10))[0] == [(1, "x" * 10)]


def test_parquet(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"text": ["one", "two"], "messages": [[{"c": "m"}], []]}), tmp_path / "a.parquet")
    assert found(tmp_path / "a.parquet") == ([(1, "one"), (2, "two")], "")
    assert found(tmp_path / "a.parquet", field="messages.*.c")[0] == [(1, "m")]
    (tmp_path / "b.parquet").write_bytes(b"PAR1 not really")
    assert found(tmp_path / "b.parquet")[1].startswith("a damaged Parquet file")


def test_html(write):
    page = (
        "<html><head><title>T</title><style>x{}</style></head><body><p>Hello <b>you</b></p><script>no()</script></body>"
    )
    documents, why = found(write("a.html", page))
    assert (documents, why) == ([(0, "T\nHello\nyou")], "")
    assert found(write("b.htm", "<p></p>"))[1] == "empty"


def test_pdf(write):
    """A PDF written by hand, object by object, that says Hello."""
    stream = b"BT /F1 12 Tf 20 100 Td (Hello from a page) Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    file, offsets = io.BytesIO(b"%PDF-1.4\n"), []
    file.seek(0, 2)
    for i, body in enumerate(objects, 1):
        offsets.append(file.tell())
        file.write(b"%d 0 obj\n%s\nendobj\n" % (i, body))
    start = file.tell()
    file.write(b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in offsets))
    file.write(b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start)
    assert found(write("a.pdf", file.getvalue())) == ([(0, "Hello from a page")], "")
    assert found(write("b.pdf", b"%PDF-1.4 nothing"))[1].startswith("a PDF that cannot be read")


def test_docstrings(write):
    code = '"""Module."""\nclass A:\n    """A class."""\n    def f(self):\n        """A method."""\nx = """no"""\n'
    assert found(write("a.py", code), extract="docstrings") == ([(0, "Module.\n\nA class.\n\nA method.")], "")
    assert found(write("b.py", "x = 1"), extract="docstrings")[1] == "without docstrings"
    assert found(write("c.py", "x ="), extract="docstrings")[1] == "no Python that this Python can read"


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("a.pdf", "pypdf", "pypdf"),
        ("a.html", "bs4", "beautifulsoup4"),
        ("a.parquet", "pyarrow.parquet", "pyarrow"),
    ],
)
def test_a_library_that_is_missing_is_named(write, monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    assert found(write(name, "x"))[1] == f"of a kind that needs “pip install {package}”"
