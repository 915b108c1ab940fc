"""A target's own answers to many prompts: text for a datastore that matches it, and to train an EAGLE head on.

REST's paper recommends a datastore made of the model's own output (arXiv 2311.08252, section 6).  Answers are generated
in batches by transformers' `generate`, and appended to a JSON-lines file a batch at a time, so that an interrupted run
goes on where it stopped.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from restviz.errors import RestvizError

WINDOW = 16  # batches whose prompts are sorted by length together, so that little is padded


def distil(
    target: str,
    prompts: list[dict[str, Any]],
    out: Path,
    tokens: int,
    *,
    batch: int = 64,
    longest: int = 224,
    temperature: float = 0.0,
    seed: int = 0,
    device: str = "auto",
    dtype: str = "auto",
) -> int:
    """Answer `prompts` (records with a `prompt`) until `out` holds `tokens` answer tokens; how many it holds.

    Each line of `out` is the prompt's record with `answer` (text), `tokens` (how many) and `target` added.  Prompts
    that are in `out` already are not answered again, and a last line that was cut by an interruption is made again.  An
    answer of `longest` tokens was cut there.
    Raises RestvizError when `out` is something else, holds another target's answers, or cannot be written.
    """
    import torch

    from restviz.target.build import load_batched
    from restviz.target.load import pretrained_tokenizer, resolve

    done = _answered(out, target)
    have = sum(record["tokens"] for record in done)
    known = {record["prompt"] for record in done}
    left = [record for record in prompts if record["prompt"] not in known]
    if have >= tokens or not left:
        return have
    model = load_batched(target, device, dtype)
    tokenizer = pretrained_tokenizer(resolve(target).folder)
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    torch.manual_seed(seed + len(done))  # a run that goes on draws something else than the one before
    sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
    bar = tqdm(total=tokens, initial=have, desc="answering", unit="token", unit_scale=True)
    with open(out, "a", encoding="utf-8") as file, bar:
        for records in _batches(left, batch):
            texts = [framed(tokenizer, record["prompt"]) for record in records]
            inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False).to(model.device)
            with torch.inference_mode():
                output = model.generate(**inputs, max_new_tokens=longest, **sampling)
            for record, row in zip(records, output[:, inputs["input_ids"].shape[1] :].tolist(), strict=True):
                ids = _until_end(row, model.generation_config.eos_token_id, tokenizer.pad_token_id)
                answer = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
                answered = {**record, "answer": answer, "tokens": len(ids), "target": target}
                file.write(json.dumps(answered, ensure_ascii=False) + "\n")
                have += len(ids)
                bar.update(len(ids))
            file.flush()
            if have >= tokens:
                break
    return have


def _answered(out: Path, target: str) -> list[dict[str, Any]]:
    """The answers that `out` holds, a last line that was cut taken away; see `distil` for what is raised."""
    if out.suffix == ".gz":
        raise RestvizError(f"{out}: answers are written as plain text, so that a run can go on; gzip them afterwards.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(out, "ab+") as file:
            file.seek(0)
            data = file.read()
    except OSError as error:
        raise RestvizError(f"{out} cannot be written ({error.strerror}).") from error
    end = data.rfind(b"\n") + 1
    was_cut = data[end : end + 1] == b"{" and not _is_json(
        data[end:]
    )  # anything else is not ours, and is left as it is
    done = list(_parsed(data[: end if was_cut else None].splitlines(), out))
    for number, record in enumerate(done, 1):
        if not isinstance(record.get("answer"), str) or not isinstance(record.get("tokens"), int):
            raise RestvizError(f"{out}, line {number} holds no answer: choose another --out.")
        if record.get("target", target) != target:
            raise RestvizError(f"{out} holds answers of {record['target']}, not of {target}: choose another --out.")
    if was_cut:
        os.truncate(out, end)
    elif end < len(data):  # a whole line, but for its end
        with open(out, "ab") as file:
            file.write(b"\n")
    return done


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSON-lines file (`.gz` or not), each with a `prompt`.  Raises RestvizError."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            yield from _parsed(file, path)
    except (EOFError, OSError) as error:
        raise RestvizError(f"{path} cannot be read as JSON lines ({error}).") from error


def _parsed(lines: Iterable[bytes], path: Path) -> Iterator[dict[str, Any]]:
    """The records in lines of `path`.  Raises RestvizError."""
    try:
        for number, line in enumerate(lines, 1):
            record = json.loads(line)
            if not isinstance(record, dict) or not isinstance(record.get("prompt"), str):
                raise RestvizError(f"{path}, line {number}: a record needs a “prompt” that is text.")
            yield record
    except ValueError as error:
        raise RestvizError(f"{path} cannot be read as JSON lines ({error}).") from error


def _batches(records: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(records), size * WINDOW):
        window = sorted(records[start : start + size * WINDOW], key=lambda record: len(record["prompt"]))
        yield from (window[i : i + size] for i in range(0, len(window), size))


def framed(tokenizer: Any, prompt: str) -> str:
    """The prompt as a user message in the chat template, when there is one."""
    if not tokenizer.chat_template:
        return prompt
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
    )


def _until_end(row: list[int], eos: int | list[int], pad: int) -> list[int]:
    """The generated ids up to and with the first that ends the text."""
    ends = {*(eos if isinstance(eos, list) else [eos]), pad}
    for i, token in enumerate(row):
        if token in ends:
            return row[: i + 1]
    return row
