"""`load_target`: weights, device, dtype and attention of a target, chosen once and written down."""

from __future__ import annotations

import gc
import logging
import platform
import re
import statistics
import time
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from restviz.datastore import vocabulary_fingerprint
from restviz.target.attention import EXACT
from restviz.target.cost import forward_times
from restviz.target.load import Source, TargetError, pretrained_tokenizer, resolve
from restviz.target.model import Target, cache_argument
from restviz.target.probe import is_bit_exact, row_limit
from restviz.target.products import exact_products, pack
from restviz.trace import Environment, ModelInfo

log = logging.getLogger("restviz")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@lru_cache(maxsize=1)
def load_target(
    name: str = "default", device: str = "auto", dtype: str = "auto", attention: str = "auto", probe: bool = True
) -> Target:
    """Load a target (see `restviz.target.load` for names).  The last one loaded is kept.

    device     auto: cuda, else mps, else cpu; or what torch calls a device
    dtype      auto: cuda bf16, mps fp16, cpu whichever of fp32 and bf16 a calibration finds faster; or one of DTYPES
    attention  auto: exact on cpu, fast elsewhere; or `exact` or `fast` (see `restviz.target.attention`)
    probe      whether to `measure` it now; False where there is no GPU yet, as on ZeroGPU

    Raises TargetError when the target cannot be had, cannot verify trees, or does not allow one of the choices.
    """
    device = choose_device(device)
    if dtype != "auto" and dtype not in DTYPES:
        raise TargetError(f"“{dtype}” is not a dtype RestViz knows: choose auto, {', '.join(DTYPES)}.")
    if attention not in ("auto", "exact", "fast"):
        raise TargetError(f"“{attention}” is not an attention RestViz knows: choose auto, exact or fast.")
    if attention == "exact" and device == "mps":
        raise TargetError("Exact attention needs float64, which mps does not have: choose attention fast, or the cpu.")
    if attention == "auto":
        attention = "exact" if device == "cpu" else "fast"
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    source = resolve(name)
    if dtype == "auto" and device == "cpu":
        target = _faster(source, attention)
    else:
        if dtype == "auto":
            dtype = "bf16" if device.startswith("cuda") else "fp16"
        target = _load(source, device, dtype, attention)
    gc.collect()  # the dtype that lost
    if probe:
        measure(target)
    return target


def _faster(source: Source, attention: str) -> Target:
    """The dtype with the smaller geometric mean of a one-row and a 32-row forward: a plain and a verification step."""
    loaded: dict[str, Target] = {}
    mean = {}
    for dtype in ("fp32", "bf16"):

        def load(dtype: str = dtype) -> Target:
            log.info("measuring how fast %s is on this CPU, once", dtype)
            return loaded.setdefault(dtype, _load(source, "cpu", dtype, attention))

        times = forward_times(_key(source.revision or source.spec, "cpu", dtype, attention), load, (1, 32))
        mean[dtype] = statistics.geometric_mean(times.values())
    best = min(mean, key=mean.get)
    return loaded.get(best) or _load(source, "cpu", best, attention)


def _key(model: str, device: str, dtype: str, attention: str) -> str:
    """Names what a forward's cost depends on; `model` is a revision, or a spec."""
    machine = f"{_device_name(device)}, {torch.get_num_threads()} threads"
    return f"{model}, {machine}, {attention}, torch {version('torch')}, {dtype}"


def _load(source: Source, device: str, dtype: str, attention: str) -> Target:
    log.info("loading %s (%s, %s, %s attention)", source.name, device, dtype, attention)
    tokenizer = pretrained_tokenizer(source.folder)
    model = _weights(source, dtype, EXACT if attention == "exact" else "sdpa")
    window = _context_window(model)
    if not getattr(model, "_supports_attention_backend", False):
        raise TargetError(
            f"{type(model).__name__} does not use transformers' attention interface, through which RestViz verifies "
            "draft trees: choose another model."
        )
    model = model.eval().requires_grad_(False).to(device)
    pack(model)
    if attention == "exact" and (rows := row_limit(model)):
        exact_products(model, rows)
    return Target(
        model=model,
        tokenizer=tokenizer,
        info=ModelInfo(
            name=source.name,
            source=source.spec,
            revision=source.revision,
            architecture=type(model).__name__,
            parameters=model.num_parameters(),
            vocab_size=model.get_output_embeddings().weight.shape[0],
            context_window=window,
            tokenizer=vocabulary_fingerprint(tokenizer.backend_tokenizer),
        ),
        environment=Environment(
            device=device,
            device_name=_device_name(device),
            dtype=dtype,
            attention=attention,
            bit_exact=None,
            threads=torch.get_num_threads(),
            versions={
                "python": platform.python_version(),
                **{package: version(package) for package in ("torch", "transformers", "numpy")},
            },
        ),
    )


def load_plain(name: str, dtype: str, device: str) -> PreTrainedModel:
    """The target as transformers loads it, with nothing of RestViz in it: what to measure against."""
    return _weights(resolve(name), dtype, "sdpa").eval().to(device)


def load_batched(name: str, device: str = "auto", dtype: str = "auto") -> PreTrainedModel:
    """The target for forwards over many sequences at a time; dtype `auto`: the one that is faster at that here."""
    device = choose_device(device)
    dtype = _faster_in_bulk(device) if dtype == "auto" else dtype
    model = load_plain(name, dtype, device).requires_grad_(False)
    pack(model)
    return model


def _faster_in_bulk(device: str) -> str:
    """bf16, unless this CPU only emulates it (then it is several times slower than fp32)."""
    if device != "cpu":
        return "fp16" if device == "mps" else "bf16"
    times = {}
    for dtype in ("fp32", "bf16"):
        x, weight = torch.ones(256, 512, dtype=DTYPES[dtype]), torch.ones(512, 512, dtype=DTYPES[dtype])
        for _ in range(3):  # the first warms up
            start = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            times[dtype] = time.perf_counter() - start
    return min(times, key=times.get)


def _weights(source: Source, dtype: str, attention: str) -> PreTrainedModel:
    try:
        return AutoModelForCausalLM.from_pretrained(
            source.folder,
            dtype=DTYPES[dtype],
            attn_implementation=attention,
            use_safetensors=any(source.folder.glob("*.safetensors")) or not any(source.folder.glob("*.bin")),
            weights_only=True,
        )
    except Exception as error:  # transformers raises many kinds for a folder it cannot read
        reason = re.split(r"\n|\. ", str(error).strip())[0].rstrip(".")
        raise TargetError(
            f"{source.name} cannot be loaded by transformers ({reason}): choose another model, or fetch it again."
        ) from error


def measure(target: Target) -> None:
    """Find out whether a target is bit-exact and what its forwards cost, for its `environment`.

    Raises TargetError when it cannot verify draft trees.
    """
    env, model = target.environment, target.info.revision or target.info.source
    try:
        env.bit_exact = is_bit_exact(target)
        env.forward_ms = forward_times(_key(model, env.device, env.dtype, env.attention), lambda: target)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        raise TargetError(
            f"{type(target.model).__name__} cannot verify a draft tree with {target.environment.attention} attention "
            f"({type(error).__name__}): choose another model, or another attention."
        ) from error


def _context_window(model: PreTrainedModel) -> int:
    """Positions the model can use.  Refuses models whose state is not a KV cache over all earlier tokens."""
    config, name = model.config.get_text_config(), type(model).__name__
    cache_argument(model)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    sliding = getattr(config, "sliding_window", None)
    sliding = sliding if getattr(config, "use_sliding_window", True) else None
    if model.config.is_encoder_decoder:
        raise TargetError(f"{name} has an encoder; RestViz needs a decoder-only language model.")
    if getattr(model, "_is_stateful", False) or not kinds <= {"full_attention", "sliding_attention"}:
        raise TargetError(
            f"{name} keeps a recurrent state, which cannot branch into a draft tree: choose another model."
        )
    if kinds == {"sliding_attention"} or (sliding and not getattr(config, "layer_types", None)):
        raise TargetError(f"{name} sees only a sliding window of tokens, which RestViz does not support.")
    window = getattr(config, "max_position_embeddings", None) or 2048
    return min(window, sliding) if sliding and "sliding_attention" in kinds else window


def choose_device(device: str) -> str:
    if device == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise TargetError(f"The device “{device}” is not available here: choose auto or cpu.") from error
    return device


def _device_name(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    if (cpuinfo := Path("/proc/cpuinfo")).exists() and (
        match := re.search(r"model name\s*: (.+)", cpuinfo.read_text())
    ):
        return match[1]
    return platform.processor() or platform.machine()
