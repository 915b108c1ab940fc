"""What a head is trained on: texts as token sequences, and the target's features of every token of them.

Written once, a folder for each text, as flat files that are memory-mapped: `tokens` int32[n], `features` bfloat16[n, d]
(the target's last hidden state after its final norm), `starts` int64[sequences + 1], and `meta.json`.
"""

from __future__ import annotations

import hashlib
import json
import random
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
class Part:
    """The sequences of one source, memory-mapped; see the module's docstring."""

    tokens: np.ndarray
    features: torch.Tensor
    starts: np.ndarray
    source: str

    @classmethod
    def open(cls, folder: Path) -> Part:
        meta = json.loads((folder / "meta.json").read_text())
        tokens = np.memmap(folder / "tokens", dtype=np.int32, mode="r")
        raw = torch.from_file(str(folder / "features"), size=len(tokens) * meta["size"], dtype=torch.bfloat16)
        starts = np.fromfile(folder / "starts", dtype=np.int64)
        return cls(tokens, raw.view(len(tokens), meta["size"]), starts, meta["source"])


class Corpus:
    """The sequences of all parts, numbered through."""

    def __init__(self, parts: list[Part]):
        self.parts = parts
        self.places = [(part, i) for part in parts for i in range(len(part.starts) - 1)]
        self.sources = [part.source for part, _ in self.places]
        self.tokens = np.concatenate([part.tokens for part in parts])

    def __len__(self) -> int:
        return len(self.places)

    def batch(self, sequences: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """tokens int64[b, t], features [b, t, d] and mask bool[b, t] of some sequences, padded at the end."""
        spans = [(part, part.starts[i], part.starts[i + 1]) for part, i in map(self.places.__getitem__, sequences)]
        longest = max(stop - start for _, start, stop in spans)
        tokens = torch.zeros(len(spans), longest, dtype=torch.long)
        features = torch.zeros(len(spans), longest, self.parts[0].features.shape[1], dtype=torch.bfloat16)
        mask = torch.zeros(len(spans), longest, dtype=torch.bool)
        for row, (part, start, stop) in enumerate(spans):
            n = stop - start
            tokens[row, :n] = torch.from_numpy(part.tokens[start:stop].astype(np.int64))
            features[row, :n], mask[row, :n] = part.features[start:stop], True
        return tokens, features, mask


def collect(folder: Path, name: str, tokens: int, tokenizer, model, seed: int = 0) -> Part:
    """At most so many tokens of the text `name` with the target's features, made once and kept in `folder`.

    `name` is a JSON-lines file of answers (as `distil` writes them: a chat each), a recipe (its files cut into pieces),
    or `wikipedia` (the paragraphs that prompts are made of).  Sequences are at most LENGTH long and drawn at random.
    What was kept is used again for the same target, and the same content where `name` is a file.
    Raises RestvizError when there is no such text.
    """
    text = hashlib.sha256(Path(name).read_bytes()).hexdigest() if Path(name).is_file() else name
    known = hashlib.sha256(f"{model.config.get_text_config().to_json_string()} {text}".encode()).hexdigest()[:12]
    place = folder / f"{Path(name).name}-{tokens}-{seed}-{known}"
    with appears_whole(place) as partial:
        if partial is not None:
            found = list(_ids(name, tokenizer, seed))
            random.Random(seed).shuffle(found)
            lengths = np.cumsum([len(ids) for ids in found])
            chosen = found[: int(np.searchsorted(lengths, tokens)) + 1]
            if not chosen:
                raise RestvizError(f"There is no text in {name} to train on.")
            partial.mkdir(parents=True)
            _write(partial, chosen, model, Path(name).name)
            (partial / "meta.json").write_text(
                json.dumps({"size": model.config.get_text_config().hidden_size, "source": Path(name).name})
            )
    return Part.open(place)


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


@torch.inference_mode()
def _write(folder: Path, chosen: list[list[int]], model, source: str) -> None:
    chosen.sort(key=len)  # neighbours of a length are padded little; training shuffles anyway
    starts = [0]
    bar = tqdm(total=sum(map(len, chosen)), desc=f"features of {source}", unit="token", unit_scale=True)
    with open(folder / "tokens", "wb") as tokens, open(folder / "features", "wb") as features, bar:
        for start in range(0, len(chosen), BATCH):
            rows = chosen[start : start + BATCH]
            padded = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
            for row, ids in enumerate(rows):
                padded[row, : len(ids)] = torch.tensor(ids)
            # padding comes last and attention is causal, so it needs no mask
            hidden = model.base_model(padded.to(model.device), use_cache=False).last_hidden_state
            for row, ids in enumerate(rows):
                np.array(ids, dtype=np.int32).tofile(tokens)
                features.write(hidden[row, : len(ids)].to(torch.bfloat16).cpu().view(torch.int16).numpy().tobytes())
                starts.append(starts[-1] + len(ids))
                bar.update(len(ids))
    np.array(starts, dtype=np.int64).tofile(folder / "starts")
