"""``sglang-marconi latency``: measure a server's prefill and decode times."""

from __future__ import annotations

import json
import random
import statistics
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click

from sglang_marconi.cli.progress import progress
from sglang_marconi.sim.latency import fit_prefill_time

_TIMEOUT_S = 600.0
_DECODED_TOKENS = 64


@click.command()
@click.option("--url", default="http://127.0.0.1:30000", show_default=True, help="A running SGLang server.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="File of times (JSON).")
@click.option(
    "--lengths",
    default="64,256,512,1024,2048,4096,8192",
    show_default=True,
    help="Prompt lengths, in tokens; those that the server refuses are left out.",
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=5, show_default=True)
@click.option("--vocabulary", type=click.IntRange(3), default=30_000, show_default=True, help="Token ids below it.")
@click.option("--seed", type=int, help="Of the random prompts; another each time by default.")
def latency(url: str, output: Path, lengths: str, repeats: int, vocabulary: int, seed: int | None) -> None:
    """Measure how long an idle server takes for prompts that it has never seen, for `simulate --latency`.

    Sends random token ids, one request at a time; the cache keeps what it keeps of them.

    \b
    sglang-marconi latency --url http://127.0.0.1:30000 -o latency.json
    sglang-marconi simulate trace.jsonl --policy sglang,marconi --capacity 20GB --latency latency.json
    """
    try:
        wanted = sorted({int(length) for length in lengths.split(",")})
        if len(wanted) < 2 or wanted[0] < 1:
            raise ValueError
    except ValueError:
        raise click.BadParameter(
            f"must be two lengths or more, as 64,512, got {lengths!r}", param_hint="--lengths"
        ) from None
    server = _Server(url, vocabulary, random.Random(seed))
    measured: list[tuple[int, float]] = []
    try:
        chunk = int(server.info().get("chunked_prefill_size") or 8192)
        with progress("measuring") as on_progress:
            server.milliseconds(wanted[0], 1)  # the first request warms up
            for place, length in enumerate(wanted):
                for repeat in range(repeats):
                    took_ms = server.milliseconds(length, 1)
                    if took_ms is None:
                        break
                    measured.append((length, took_ms))
                    on_progress((place + repeat / repeats) / len(wanted))
            steps = [server.decode_step_ms(wanted[0]) for _ in range(repeats)]
        table, quality = fit_prefill_time(*zip(*measured, strict=True))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{url}: {error}") from error
    record = {
        "prefill": {"tokens": table.tokens, "ms": table.ms},
        "decode_ms": statistics.median(steps),
        "chunked_prefill_size": chunk,
        "fit": quality,
        "measured": measured,
    }
    output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    click.echo(
        f"prefill: {quality['intercept_ms']:.2f} ms + {quality['ms_per_token']:.5f} ms a token "
        f"(R2 {quality['r2']:.4f}); "
        f"table off by {quality['median_error']:.1%} (median), {quality['p95_error']:.1%} (P95); "
        f"decode {record['decode_ms']:.2f} ms a step"
    )


class _Server:
    def __init__(self, url: str, vocabulary: int, rng: random.Random) -> None:
        self._url = url.rstrip("/")
        self._vocabulary = vocabulary
        self._rng = rng

    def info(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._request("/server_info", None)
        return answer

    def milliseconds(self, prompt_tokens: int, new_tokens: int) -> float | None:
        """From sending a request to its whole answer; None if the server refuses the length."""
        prompt = [self._rng.randrange(2, self._vocabulary) for _ in range(prompt_tokens)]
        sampling = {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True}
        start = time.perf_counter()
        try:
            self._request("/generate", {"input_ids": prompt, "sampling_params": sampling})
        except urllib.error.HTTPError as error:
            if error.code == 400:
                return None
            raise
        return (time.perf_counter() - start) * 1e3

    def decode_step_ms(self, prompt_tokens: int) -> float:
        one, many = (self.milliseconds(prompt_tokens, tokens) for tokens in (1, 1 + _DECODED_TOKENS))
        if one is None or many is None:
            raise ValueError(f"the server refuses prompts of {prompt_tokens} tokens with {_DECODED_TOKENS} new ones")
        return max(0.0, (many - one) / _DECODED_TOKENS)

    def _request(self, path: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
