"""Prompts to start with, each for a reason: what retrieval finds, what the text itself repeats, and what neither does.

The labels say what to expect with the default target, datastores and settings.  Tokens per step (M) of REST and RASD,
96 tokens, greedy, bf16: everyday Python 2.50 and 3.96, completion 2.16 and 3.52, edit 1.56 and 5.73, question 1.36 and
1.83.
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
        "Edit of given code: RASD at its best",
        """Add type hints to this Python code and repeat the whole code:

def area(width, height):
    return width * height

def perimeter(width, height):
    return 2 * (width + height)
""",
        True,
    ),
    Preset(
        "Free question: drafts help least",
        "Why is the sky blue, and why are sunsets red?",
        True,
    ),
)
