"""Text and bytes of single tokens, whatever the tokenizer's kind.

A token is not always whole characters: byte-level BPE and byte-fallback vocabularies split a character over several
tokens.  Such a token has bytes but no text of its own.
"""

from __future__ import annotations

import re
from functools import cache

from transformers import PreTrainedTokenizerBase


class TokenText:
    """`bytes(id)` and `text(id)` for the ids of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.tokenizer = tokenizer
        added = {token.content for token in tokenizer.added_tokens_decoder.values()}
        self.literal = added | set(tokenizer.all_special_tokens)
        first_ids = range(min(len(tokenizer), 2000))
        self.byte_level = any("Ġ" in token for token in tokenizer.convert_ids_to_tokens(first_ids))
        self.cached: dict[int, bytes] = {}

    def bytes(self, token_id: int) -> bytes:
        """UTF-8 bytes of the token; the marker itself (`<|im_end|>`) for special tokens, empty for unknown ids."""
        if token_id not in self.cached:
            piece = self.tokenizer.convert_ids_to_tokens(token_id)
            self.cached[token_id] = self._bytes(piece) if isinstance(piece, str) else b""
        return self.cached[token_id]

    def text(self, token_id: int) -> str:
        """The token as text, bytes that are no whole character shown as U+FFFD."""
        return self.bytes(token_id).decode("utf-8", errors="replace")

    def whole(self, token_id: int) -> bool:
        """Whether the token is whole characters."""
        try:
            self.bytes(token_id).decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True

    def _bytes(self, piece: str) -> bytes:
        if piece in self.literal:
            return piece.encode()
        if self.byte_level:
            table = _byte_of_character()
            if all(character in table for character in piece):
                return bytes(table[character] for character in piece)
        if re.fullmatch(r"<0x[0-9A-Fa-f]{2}>", piece):
            return bytes([int(piece[3:5], 16)])
        return piece.replace("▁", " ").encode()


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's table of printable stand-ins for the 256 bytes, inverted."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
