"""Prompts to start with: two that suit retrieval from the default datastore, and two that do not, each for a reason.

The labels say what to expect with the default target, datastore and settings.
"""

from __future__ import annotations

from typing import NamedTuple


class Preset(NamedTuple):
    label: str
    prompt: str
    chat: bool


PRESETS = (
    Preset(
        "Everyday Python: REST at its best",
        "Write a Python class Stack that uses a list, with push, pop, peek and is_empty. Only code.",
        True,
    ),
    Preset(
        "Code completion: REST does well",
        """class LRUCache:
    def __init__(self, maxsize=128):
        self.maxsize = maxsize
        self.data = {}

    def __getitem__(self, key):
        try:
""",
        False,
    ),
    Preset(
        "Edit of given code: REST helps little",
        """Add type hints to this Python code and repeat the whole code:

def area(width, height):
    return width * height

def perimeter(width, height):
    return 2 * (width + height)
""",
        True,
    ),
    Preset(
        "Free question: REST does badly",
        "Why is the sky blue, and why are sunsets red?",
        True,
    ),
)
