#!/usr/bin/env python3
"""What marconi costs where it cannot help: prompts that never repeat, answers of many steps.

Two real servers, SGLang's own cache and marconi, take turns: the same prompts go to one, then to the other, and only
one of them works at a time. The ratio of the two times is taken within each round, so that a machine that slows down
for a while slows both. Reported with a 95 % interval of the median (order statistics).
"""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from demo import STRATEGY_FLAGS
from machine import describe_machine
from rich.console import Console
from rich.progress import Progress

from sglang_marconi.platform.models import make_tiny_model
from sglang_marconi.platform.server import TinyServer
from sglang_marconi.platform.tokenizer import VOCAB_SIZE

BACKENDS = {"sglang": None, "marconi": "marconi"}


def batch_seconds(server: TinyServer, prompts: list[list[int]], new_tokens: int, pool: ThreadPoolExecutor) -> float:
    start = time.perf_counter()
    answers = pool.map(lambda prompt: server.generate(prompt, new_tokens, logprobs=False), prompts)
    assert all(answer.cached_tokens == 0 for answer in answers)
    return time.perf_counter() - start


def median_interval(values: list[float]) -> tuple[float, float]:
    """Smallest order statistics that hold the median with 95 % probability (binomial, 1/2)."""
    count = len(values)
    reach = int(0.98 * count**0.5)
    ordered = sorted(values)
    return ordered[max(0, count // 2 - reach)], ordered[min(count - 1, (count - 1) // 2 + reach)]


@click.command(help=__doc__)
@click.option("--family", default="falcon_h1", show_default=True)
@click.option("--strategy", type=click.Choice(list(STRATEGY_FLAGS)), default="extra_buffer", show_default=True)
@click.option("--rounds", default=30, show_default=True)
@click.option("--batch", default=4, show_default=True, help="Requests at a time.")
@click.option("--prompt-tokens", default=32, show_default=True)
@click.option("--new-tokens", default=300, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(
    family: str, strategy: str, rounds: int, batch: int, prompt_tokens: int, new_tokens: int, seed: int, as_json: bool
) -> None:
    rng = random.Random(seed)
    flags = {**STRATEGY_FLAGS[strategy], "max-total-tokens": 8192, "sleep-on-idle": True}
    seconds: dict[str, list[float]] = {name: [] for name in BACKENDS}
    with contextlib.ExitStack() as stack:
        model = make_tiny_model(family, Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model")
        servers = {
            name: stack.enter_context(TinyServer(model, backend=backend, flags=flags))
            for name, backend in BACKENDS.items()
        }
        pool = stack.enter_context(ThreadPoolExecutor(batch))
        progress = stack.enter_context(Progress(console=Console(stderr=True)))
        task = progress.add_task("rounds", total=rounds + 2)
        for number in range(rounds + 2):
            prompts = [[rng.randrange(2, VOCAB_SIZE) for _ in range(prompt_tokens)] for _ in range(batch)]
            names = list(BACKENDS) if number % 2 else list(BACKENDS)[::-1]
            for name in names:
                taken = batch_seconds(servers[name], prompts, new_tokens, pool)
                if number >= 2:  # the first rounds warm up
                    seconds[name].append(taken)
            progress.advance(task)
    ratios = [ours / theirs for ours, theirs in zip(seconds["marconi"], seconds["sglang"], strict=True)]
    low, high = median_interval(ratios)
    report = {
        "machine": describe_machine(),
        "strategy": strategy,
        "requests": rounds * batch,
        "prompt_tokens": prompt_tokens,
        "new_tokens": new_tokens,
        "ms_per_step": {name: statistics.median(times) / new_tokens * 1e3 for name, times in seconds.items()},
        "ratio": statistics.median(ratios),
        "ratio_interval": [low, high],
    }
    if as_json:
        print(json.dumps(report, indent=2))
        return
    print(report["machine"])
    print(f"{strategy}: {rounds} rounds of {batch} prompts of {prompt_tokens} tokens, {new_tokens} new tokens each")
    for name, times in seconds.items():
        per_step = statistics.median(times) / new_tokens * 1e3
        print(f"{name:8} {statistics.median(times) * 1e3:8.1f} ms a round, {per_step:6.3f} ms a step")
    print(f"marconi / sglang: {report['ratio']:.4f} (95 %: {low:.4f} to {high:.4f})")


if __name__ == "__main__":
    main()
