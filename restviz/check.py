"""A teacher-forced check of a finished run: was every emitted token the target's own choice?

One more forward over prompt and answer gives the target's distribution at every position, computed the way a prompt is
and not the way the run was.  Where the choice from it is not the emitted token, the gap between the two says whether
that was a near-tie that rounding turned (a few hundredths) or a defect (units).
"""

from __future__ import annotations

from restviz.target.model import Target
from restviz.target.sampling import Sampler
from restviz.trace import Check, Trace


def check(target: Target, trace: Trace) -> Check:
    """Compare every emitted token of `trace` with the target's choice given the tokens before it."""
    parameters = trace.header.parameters
    sampler = Sampler(*(parameters[name] for name in ("temperature", "top_k", "top_p", "seed")))
    prompt, tokens = trace.header.prompt_ids, trace.tokens
    differs, gap = [], []
    with target.lock:
        session = target.session(len(prompt) + len(tokens))
        try:
            if len(prompt) > 1:
                session.prefill(prompt[:-1])
            for at, logits in enumerate(session.score([prompt[-1], *tokens[:-1]])):
                margin = sampler.margin(logits, len(prompt) + at, tokens[at])
                if margin > 0:
                    differs.append(at)
                    gap.append(round(margin, 6) if margin < float("inf") else None)
        finally:
            session.release()
    return Check(tokens=len(tokens), differs=differs, gap=gap)
