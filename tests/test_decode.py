"""The loop, on a tiny random model and on a toy whose distribution is known exactly."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from restviz.decode import decode, verify
from restviz.drafters import Draft, LookupDrafter, NoDrafter, RasdDrafter
from restviz.drafters.model import ModelDrafter
from restviz.target.load import TargetError
from restviz.target.sampling import Sampler
from restviz.tree import from_paths


class TreeDrafter:
    """Proposes `tree(context)`: a list of paths."""

    budget, datastores, taps = 64, [], ()

    def __init__(self, paths):
        self.paths = paths

    def propose(self, context):
        tree = from_paths(int(context.tokens[-1]), [p[: context.max_depth] for p in self.paths(context)])
        return Draft(tree=tree, verdict=np.zeros(len(tree), dtype=np.uint8))


def run(target, drafter, prompt, n=24, **sampling):
    """`(tokens, steps, finish)` of a whole run."""
    steps, generator = [], decode(target, drafter, prompt, Sampler(**sampling), n)
    while True:
        try:
            steps.append(next(generator))
        except StopIteration as end:
            return [token for step in steps for token in step.emitted], steps, end.value


@pytest.fixture
def no_eos(tiny, monkeypatch):
    """The tiny target, which never ends its text by itself."""
    monkeypatch.setattr(type(tiny), "eos", frozenset())
    return tiny


PROMPT = [5, 80, 81, 7, 90]


def test_autoregressive_is_the_argmax_loop(no_eos):
    tokens, steps, finish = run(no_eos, NoDrafter(), PROMPT)
    ids = list(PROMPT)
    with torch.inference_mode():
        for _ in range(24):
            # stock attention, whole text anew each time: nothing of the engine is in it
            causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()[None, None]
            config = no_eos.model.config
            before, config._attn_implementation = config._attn_implementation, "eager"
            bias = torch.zeros(causal.shape).masked_fill(~causal, float("-inf"))
            logits = no_eos.model(torch.tensor([ids]), attention_mask=bias, use_cache=False).logits
            config._attn_implementation = before
            ids.append(int(logits[0, -1].argmax()))
    assert tokens == ids[len(PROMPT) :]
    assert len(steps) == 24
    assert finish.reason == "max_new_tokens"


def test_an_oracle_is_accepted_whole(no_eos):
    truth, *_ = run(no_eos, NoDrafter(), PROMPT)

    def future(context):
        done = len(context.tokens) - len(PROMPT)
        return [truth[done : done + 6], [1, 2, 3]]

    drafter = TreeDrafter(future)
    tokens, steps, _ = run(no_eos, drafter, PROMPT)
    assert tokens == truth
    assert [len(step.emitted) for step in steps] == [1, 7, 7, 7, 2]
    assert all(len(step.accepted) == 6 for step in steps[1:4])
    # the last step: two tokens were left, both drafted, so nothing is drawn after them
    assert steps[-1].bonus is None
    assert steps[-1].nodes.fate.count("accepted") == 2


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.7, 1.5]))
def test_any_drafter_gives_the_autoregressive_text(tiny, seed, temperature):
    sampling = {"temperature": temperature, "seed": seed, "top_p": 0.9}
    truth, _, end = run(tiny, NoDrafter(), PROMPT, **sampling)
    rng = np.random.default_rng(seed)

    def guess(context):
        """Right and wrong branches mixed: some start with true tokens and then stray."""
        done = len(context.tokens) - len(PROMPT)
        paths = []
        for _ in range(6):
            path = truth[done : done + int(rng.integers(0, 5))]
            paths.append(path + rng.integers(0, 300, int(rng.integers(1, 4))).tolist())
        return paths

    tokens, steps, finish = run(tiny, TreeDrafter(guess), PROMPT, **sampling)
    assert tokens == truth
    assert finish == end
    for step in steps:
        walked = [0, *step.accepted]
        assert [step.nodes.parent[node] for node in step.accepted] == walked[:-1]


def test_eos_inside_an_accepted_path_ends_the_text(no_eos, monkeypatch):
    truth, *_ = run(no_eos, NoDrafter(), PROMPT)
    stop = next(token for i, token in enumerate(truth) if i > 2 and token not in truth[:i])
    end = truth.index(stop) + 1
    monkeypatch.setattr(type(no_eos), "eos", frozenset([stop]))
    tokens, steps, finish = run(no_eos, TreeDrafter(lambda c: [truth[len(c.tokens) - len(PROMPT) :][:20]]), PROMPT)
    assert tokens == truth[:end]
    assert finish.reason == "eos"
    assert steps[-1].bonus is None
    assert steps[-1].nodes.token[steps[-1].accepted[-1]] == stop


def test_the_context_window_ends_the_text_with_a_reason(no_eos):
    window = no_eos.info.context_window
    prompt = (PROMPT * window)[: window - 6]
    for drafter in (NoDrafter(), TreeDrafter(lambda c: [[1] * 10, [2] * 10])):
        tokens, _, finish = run(no_eos, drafter, prompt, n=50)
        assert len(tokens) == 6
        assert finish.reason == "context_window"
        assert str(window) in finish.message


@pytest.mark.parametrize("length", [256, 300])
def test_a_prompt_that_fills_the_window_is_refused(tiny, length):
    with pytest.raises(TargetError, match=f"has {length} tokens .* room for 256: shorten it"):
        next(decode(tiny, NoDrafter(), [5] * length, Sampler(), 10))


def test_closing_at_any_step_releases_the_cache(no_eos):
    sessions = []

    def session(capacity, taps, make=no_eos.session):
        made = make(capacity, taps)
        sessions.append(weakref.ref(made.cache))
        return made

    spy = SimpleNamespace(info=no_eos.info, eos=frozenset(), session=session, check_room=no_eos.check_room)
    generator = decode(spy, NoDrafter(), PROMPT, Sampler(), 24)
    next(generator), next(generator)
    assert sessions[0]() is not None
    generator.close()
    gc.collect()
    assert sessions[0]() is None


def test_times_add_up_to_the_wall_clock_of_the_step(no_eos, monkeypatch):
    ticks = iter(range(10**9))
    monkeypatch.setattr("restviz.decode.time.perf_counter", lambda: next(ticks) / 1000)  # one millisecond a look
    generator = decode(no_eos, TreeDrafter(lambda c: [[1, 2], [3]]), PROMPT, Sampler(), 12)
    before = -1
    for step in generator:
        now = next(ticks)
        wall = now - before - 1  # looks at the clock while the step was made
        before = now
        times = step.times.model_dump()
        assert min(times.values()) >= 0
        assert sum(times.values()) == pytest.approx(step.times.total)
        # the first tick of the step starts its clock, the last one stops it
        assert step.times.total == pytest.approx(wall - 1)


class Markov:
    """A toy target whose next-token distribution depends on the last token alone: logits[token] -> [vocab]."""

    eos = frozenset()
    info = SimpleNamespace(context_window=10**6)

    def __init__(self, logits: torch.Tensor):
        self.logits = logits

    def check_room(self, ids):
        pass

    def session(self, capacity, taps):
        return SimpleNamespace(
            prefill=lambda ids: self.logits[ids[-1]],
            forward=lambda tree: self.logits[torch.from_numpy(tree.token).long()],
            commit=lambda nodes: None,
            release=lambda: None,
            hidden=None,
        )


VOCAB, RUNS = 4, 3000


def joint_p_value(texts: list[list[int]], logits: torch.Tensor) -> float:
    """Chi-square p-value of three-token texts against the chain's exact joint distribution."""
    p = torch.softmax(logits.double(), dim=-1).numpy()
    joint = np.einsum("a,ab,bc->abc", p[0], p, p).ravel()
    seen = Counter(a * VOCAB**2 + b * VOCAB + c for a, b, c in texts)
    return chisquare([seen[i] for i in range(VOCAB**3)], joint * len(texts)).pvalue


class OtherMarkov:
    """A draft model that is another chain than the target."""

    taps, ids = (), None

    def __init__(self):
        self.logits = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(8))

    def begin(self, context):
        return self.logits[int(context.tokens[-1])]

    def expand(self, tokens, parents):
        return self.logits[tokens]


def retrieved():
    # shared first tokens, as in REST's trees: the public code draws once per row and so favours them
    return TreeDrafter(lambda c: [[1, 2, 0], [1, 0, 3], [1, 3], [2, 2], [0]])


def fused():
    return RasdDrafter(ModelDrafter(OtherMarkov(), k=2, depth=1, budget=4), [retrieved(), LookupDrafter(2)], k=2)


@pytest.mark.parametrize("make", [retrieved, fused])
def test_sampling_follows_the_target_with_branching_trees(make):
    logits = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(3))
    drafted, sources = [], Counter()
    for seed in range(RUNS):
        text, steps, _ = run(Markov(logits), make(), [0, 1, 0], 3, temperature=1.0, seed=seed)
        drafted.append(text)
        sources.update(source for step in steps for source in step.nodes.source[1:])
    assert len(sources) == {retrieved: 1, fused: 6}[make], "nodes of mixed origins"
    plain = [run(Markov(logits), NoDrafter(), [0, 1, 0], 3, temperature=1.0, seed=seed)[0] for seed in range(RUNS)]
    assert drafted == plain
    assert joint_p_value(drafted, logits) > 1e-3


def test_the_chi_square_test_can_fail():
    """One draw per root-to-leaf row, as in REST's public code, is far from the target's distribution."""
    logits = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(3))
    p = torch.softmax(logits, dim=-1).numpy()
    rng = np.random.default_rng(0)

    def token(last, drafts):
        accepted = [d for d in drafts if rng.choice(VOCAB, p=p[last]) == d]
        return accepted[0] if accepted else rng.choice(VOCAB, p=p[last])

    texts = []
    for _ in range(RUNS):
        first = token(0, [1, 1, 1, 2, 0])
        second = token(first, [2, 0, 3] if first == 1 else [2])
        texts.append([int(first), int(second), int(token(second, []))])
    assert joint_p_value(texts, logits) < 1e-6


def test_verify_draws_once_per_visited_node():
    tree = from_paths(9, [[1, 2], [3]])
    logits = torch.full((len(tree), 12), -5.0)
    logits[0, 1] = logits[1, 2] = logits[3, 7] = 5.0
    verified = verify(tree, logits, Sampler(), position=4, left=10, eos=frozenset())
    assert ([tree.paths()[i] for i in verified.path], verified.bonus) == ([(1,), (1, 2)], 7)
    assert [node for node, _ in verified.visits] == [0, 1, 3]
