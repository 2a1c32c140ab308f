"""The real SGLang server on a tiny model, started and ended by a test or a script."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sglang_marconi.platform.plugin import FORK_VARIABLE, NAME

# Small pools, and nothing at start-up that a test does not need. Cheap to change: `flags` overrides each.
DEFAULT_FLAGS: dict[str, object] = {
    "max-total-tokens": 4096,
    "max-mamba-cache-size": 32,
    "skip-server-warmup": True,
    "cuda-graph-backend-decode": "disabled",
    "cuda-graph-backend-prefill": "disabled",
    "log-level": "info",
}
# A crashed server looks for CUDA core dumps for a minute before it ends, while its clients wait.
QUICK_CRASH = {"SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0", "SGLANG_PYSPY_DUMP_BEFORE_CRASH": "0"}
LOG_TAIL_LINES = 60


@dataclass(frozen=True)
class Generation:
    """One request's answer.

    Attributes:
        token_ids: generated ids.
        text: generated text, empty without a tokenizer.
        logprobs: of the generated ids; empty unless asked for.
        input_logprobs: of the prompt's ids from ``logprob_start`` on, each given those before it (the first position
            of a prompt has none); empty unless asked for.
        prompt_tokens: length of the prompt.
        cached_tokens: how many of them came from the cache.
        latency_s: end to end, as the server measured it.
        meta: all that the server said about the request.
    """

    token_ids: list[int]
    text: str
    logprobs: list[float]
    input_logprobs: list[float]
    prompt_tokens: int
    cached_tokens: int
    latency_s: float
    meta: dict[str, Any]


class TinyServer:
    """A running ``python -m sglang.launch_server`` on platform ``marconi_cpu``; use it in a ``with`` statement.

    Its processes form a group of their own, which ends with the block whatever happens in it.

    Starting takes some 20 s of processor time, nearly all of it importing SGLang: 27 s where two cores were half busy,
    45 s with ``fork=False``, which imports it three times. Serving itself is quick: 0.05 s for a prompt of 200 tokens,
    0.011 s a step, so let tests share a server.
    """

    def __init__(
        self,
        model: Path | str,
        *,
        backend: str | None = None,
        flags: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        fork: bool = True,
        module: str = "sglang.launch_server",
        log_path: Path | str | None = None,
        startup_timeout_s: float = 300.0,
    ) -> None:
        """Prepare a server; entering the block starts it.

        Args:
            model: directory of a model, as `make_tiny_model` writes it.
            backend: value of ``--radix-cache-backend``; None for SGLang's own cache.
            flags: server flags without their dashes, over `DEFAULT_FLAGS`. True is a bare flag, None or False leaves
                the flag out, a dict is passed as JSON, anything else as text.
            environment: added to this process's environment.
            fork: fork SGLang's processes, which starts them in half the time; False spawns them as on a GPU, each
                importing SGLang and its plugins anew.
            module: what Python runs; one of the caller's that runs SGLang's in turn is found on this process's path.
            log_path: where the server's output goes; a temporary file if None.
            startup_timeout_s: how long entering the block may take.
        """
        self.model = Path(model)
        self.port = _free_port()
        self.startup_timeout_s = startup_timeout_s
        chosen = {**DEFAULT_FLAGS, **(flags or {})}
        if backend is not None:
            chosen["radix-cache-backend"] = backend
        self.command = [sys.executable, "-m", module, "--model-path", str(self.model)]
        self.command += ["--host", "127.0.0.1", "--port", str(self.port), *_command_line(chosen)]
        self.environment = {
            **os.environ,
            **QUICK_CRASH,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "SGLANG_PLATFORM": NAME,
            FORK_VARIABLE: "1" if fork else "0",
            **(environment or {}),
        }
        self._log_path = Path(log_path) if log_path is not None else None
        self._log: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.process_group: int | None = None

    def __enter__(self) -> TinyServer:
        if self._log_path is None:
            descriptor, name = tempfile.mkstemp(prefix="sglang-marconi-", suffix=".log")
            os.close(descriptor)
            self._log_path = Path(name)
        self._log = self._log_path.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            self.command, env=self.environment, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.process_group = self._process.pid
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Base address, also of the OpenAI interface (``url + "/v1"``)."""
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        """What the server has written so far."""
        return "" if self._log_path is None else self._log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """End the server and every process it started. Idempotent."""
        if self._process is not None:
            _end_group(self._process)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def generate(
        self,
        prompt: Sequence[int] | str,
        max_new_tokens: int = 8,
        *,
        logprobs: bool = True,
        logprob_start: int | None = None,
        ignore_eos: bool = True,
        rid: str | None = None,
        priority: int | None = None,
        timeout_s: float = 120.0,
        **sampling: object,
    ) -> Generation:
        """Greedy continuation of token ids or of text.

        Args:
            prompt: token ids, or text.
            max_new_tokens: length of the answer.
            logprobs: return those of the answer.
            logprob_start: return those of the prompt from this position on too; SGLang then reuses no state after it.
            ignore_eos: go on after the end token.
            rid: name of the request, for `abort`.
            priority: of the request, for ``--enable-priority-scheduling``.
            sampling: further sampling parameters.

        Raises:
            RuntimeError: if the server refuses the request or aborts it, with what it said.
        """
        parameters = {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": ignore_eos, **sampling}
        body: dict[str, Any] = {"sampling_params": parameters, "return_logprob": logprobs}
        body["text" if isinstance(prompt, str) else "input_ids"] = prompt if isinstance(prompt, str) else list(prompt)
        if logprobs and logprob_start is not None:
            body["logprob_start_len"] = logprob_start
        body |= {name: value for name, value in (("rid", rid), ("priority", priority)) if value is not None}
        return _generation(self.request("/generate", body, timeout_s=timeout_s))

    def chat(
        self, messages: Sequence[Mapping[str, str]], max_tokens: int = 8, *, timeout_s: float = 120.0, **options: object
    ) -> dict[str, Any]:
        """Greedy reply to messages through ``/v1/chat/completions``, as the server returns it."""
        body = {"model": "tiny", "messages": list(messages), "max_tokens": max_tokens, "temperature": 0, **options}
        return self.request("/v1/chat/completions", body, timeout_s=timeout_s)

    def flush(self) -> None:
        """Empty the cache once the server is idle."""
        self.request("/flush_cache?timeout=30", {})

    def server_info(self) -> dict[str, Any]:
        """Arguments and internal states of the server (``/server_info``)."""
        return self.request("/server_info")

    def abort(self, rid: str) -> None:
        """Abort a request by its name."""
        self.request("/abort_request", {"rid": rid})

    def request(self, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Any:
        """POST a JSON body (or GET without one) and return the decoded answer, or its text if it is no JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: HTTP {error.code}: {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise RuntimeError(f"{path}: {error}; the server's last lines:\n{self._log_tail()}") from error
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self.startup_timeout_s
        with _watch(self._process) as died:
            while not died.wait(0.1):
                if self._is_healthy():
                    return
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"SGLang was not ready after {self.startup_timeout_s:.0f} s; its last lines:\n"
                        + self._log_tail()
                    )
        raise RuntimeError(f"SGLang ended with {self._process.returncode}; its last lines:\n{self._log_tail()}")

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _log_tail(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])


def _command_line(flags: Mapping[str, object]) -> list[str]:
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        if isinstance(value, dict):
            words.append(json.dumps(value))
        elif value is not True:
            words.append(str(value))
    return words


def _generation(answer: Any) -> Generation:
    meta = answer["meta_info"]
    reason = meta.get("finish_reason") or {}
    if reason.get("type") == "abort":
        raise RuntimeError(f"the server aborted the request: {reason.get('message', reason)}")

    def values(name: str) -> list[float]:
        return [entry[0] for entry in meta.get(name) or [] if entry[0] is not None]

    return Generation(
        token_ids=answer.get("output_ids", []),
        text=answer.get("text", ""),
        logprobs=values("output_token_logprobs"),
        input_logprobs=values("input_token_logprobs"),
        prompt_tokens=meta["prompt_tokens"],
        cached_tokens=meta["cached_tokens"],
        latency_s=meta["e2e_latency"],
        meta=meta,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _watch(process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """An event that is set when the process ends."""
    died = threading.Event()

    def wait() -> None:
        process.wait()
        died.set()

    threading.Thread(target=wait, daemon=True).start()
    yield died


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the group that the process leads: nothing in it has work to save."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
