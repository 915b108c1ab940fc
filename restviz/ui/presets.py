"""Prompts to start with, each for a reason: what retrieval finds, what the text itself repeats, and what neither does.

The labels say what to expect with the default target, head, datastores and settings.  Tokens per step (M) of PLD, REST,
EAGLE and RASD, 96 tokens, greedy, fp32 (`python -m restviz generate PROMPT --method … --max-new-tokens 96`): everyday
Python 1.51, 2.50, 3.80, 4.32; completion 2.07, 2.26, 3.06, 3.80; edit 1.87, 1.43, 2.70, 3.65; question 1.10, 1.32,
1.67, 1.76.
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
        "Edit of given code: RASD adds most",
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
