"""What a head is trained on: texts as token sequences, and the target's features of every token of them.

Written once into a folder, as flat files that are memory-mapped: `tokens` int32[n], `features` bfloat16[n, d] (the
target's last hidden state after its final norm), `starts` int64[sequences + 1], and `meta.json`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from restviz.assets import appears_whole
from restviz.datastore.sources import RECIPES, load_recipe, read_documents
from restviz.errors import RestvizError
from restviz.train.distil import framed, read_records
from restviz.train.prompts import encyclopaedia

ANSWERS = RECIPES / "answers.jsonl.gz"  # the default target's
LENGTH = 256  # tokens of a training sequence, at most
BATCH = 16  # sequences of a target forward


@dataclass
class Corpus:
    """Training sequences with their features, memory-mapped; see the module's docstring."""

    tokens: np.ndarray
    features: torch.Tensor
    starts: np.ndarray
    sources: list[str]  # of each sequence

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        meta = json.loads((folder / "meta.json").read_text())
        tokens = np.memmap(folder / "tokens", dtype=np.int32, mode="r")
        raw = torch.from_file(str(folder / "features"), size=len(tokens) * meta["size"], dtype=torch.bfloat16)
        starts = np.fromfile(folder / "starts", dtype=np.int64)
        return cls(tokens, raw.view(len(tokens), meta["size"]), starts, meta["sources"])

    def batch(self, sequences: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """tokens int64[b, t], features [b, t, d] and mask bool[b, t] of some sequences, padded at the end."""
        spans = [(int(self.starts[i]), int(self.starts[i + 1])) for i in sequences]
        longest = max(stop - start for start, stop in spans)
        tokens = torch.zeros(len(spans), longest, dtype=torch.long)
        features = torch.zeros(len(spans), longest, self.features.shape[1], dtype=torch.bfloat16)
        mask = torch.zeros(len(spans), longest, dtype=torch.bool)
        for row, (start, stop) in enumerate(spans):
            n = stop - start
            tokens[row, :n] = torch.from_numpy(self.tokens[start:stop].astype(np.int64))
            features[row, :n], mask[row, :n] = self.features[start:stop], True
        return tokens, features, mask


def sequences(texts: list[str], tokenizer, seed: int = 0) -> list[tuple[str, list[int]]]:
    """`(source, token ids)` of all training sequences, at most LENGTH long, in a random order.

    `texts` are JSON-lines files of answers (as `distil` writes them: a chat each), names of recipes (their files, cut
    into pieces), or `wikipedia` (the paragraphs that prompts are made of).
    """
    found = [(name, ids) for name in texts for ids in _ids(name, tokenizer, seed)]
    random.Random(seed).shuffle(found)
    return found


def _ids(name: str, tokenizer, seed: int) -> Iterator[list[int]]:
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    if ".jsonl" in name:
        for record in read_records(Path(name)):
            ids = encode(framed(tokenizer, record["prompt"])) + encode(record["answer"])
            ids += [tokenizer.eos_token_id]
            yield ids[-LENGTH:] if len(ids) > LENGTH else ids
        return
    if name == "wikipedia":
        paragraphs, _ = encyclopaedia(random.Random(seed))
        documents = iter("\n\n".join(paragraphs[i : i + 20]) for i in range(0, len(paragraphs), 20))
    else:
        recipe = load_recipe(name)
        documents = (document.text for file in recipe.files() for document in read_documents(recipe, *file))
    for text in documents:
        ids = encode(text)
        yield from (ids[i : i + LENGTH] for i in range(0, len(ids) - 32, LENGTH))


def collect(folder: Path, found: list[tuple[str, list[int]]], model, tokens: dict[str, int]) -> Corpus:
    """Run the target over sequences until each source has given `tokens[source]` tokens; kept in `folder`."""
    if not found:
        raise RestvizError("There is no text to train on.")
    chosen, have = [], Counter()
    for source, ids in found:
        if have[source] < tokens[source]:
            have[source] += len(ids)
            chosen.append((source, ids))
    with appears_whole(folder) as partial:
        if partial is not None:
            partial.mkdir(parents=True)
            _write(partial, chosen, model, sum(have.values()))
    return Corpus.open(folder)


@torch.inference_mode()
def _write(folder: Path, chosen: list[tuple[str, list[int]]], model, total: int) -> None:
    size = model.config.get_text_config().hidden_size
    chosen.sort(key=lambda pair: len(pair[1]))  # neighbours of a length are padded little; training shuffles anyway
    starts, sources = [0], []
    bar = tqdm(total=total, desc="features", unit="token", unit_scale=True)
    with open(folder / "tokens", "wb") as tokens, open(folder / "features", "wb") as features, bar:
        for start in range(0, len(chosen), BATCH):
            rows = chosen[start : start + BATCH]
            longest = max(len(ids) for _, ids in rows)
            padded = torch.zeros(len(rows), longest, dtype=torch.long)
            for row, (_, ids) in enumerate(rows):
                padded[row, : len(ids)] = torch.tensor(ids)
            # padding comes last and attention is causal, so it needs no mask
            hidden = model.base_model(padded.to(model.device), use_cache=False).last_hidden_state
            for row, (source, ids) in enumerate(rows):
                np.array(ids, dtype=np.int32).tofile(tokens)
                features.write(hidden[row, : len(ids)].to(torch.bfloat16).cpu().view(torch.int16).numpy().tobytes())
                starts.append(starts[-1] + len(ids))
                sources.append(source)
                bar.update(len(ids))
    np.array(starts, dtype=np.int64).tofile(folder / "starts")
    (folder / "meta.json").write_text(json.dumps({"size": size, "sources": sources}))
