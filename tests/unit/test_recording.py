"""A recorded trace replays to the hits of what was recorded, and shows no token unless asked."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from random_prompts import Workload

from sglang_marconi import _core
from sglang_marconi.cost import PrefixCost
from sglang_marconi.recording.recorder import TraceRecorder
from sglang_marconi.recording.trace_files import TraceFiles
from sglang_marconi.sim import ReplayRun, replay
from sglang_marconi.sim.traces import read_trace

COST = PrefixCost(10.0, 0.1, kv_bytes_per_token=100, state_bytes=3000)
SECRET = 4_000_000_000


def requests(seed: int, count: int) -> list[SimpleNamespace]:
    """Finished requests as SGLang shows them; their tokens are large numbers, to be told from lengths."""
    rng = random.Random(seed)
    workload = Workload(rng)
    made = []
    for number in range(count):
        prompt = workload.prompt()[:500]
        reply = [rng.randrange(1000) for _ in range(rng.randrange(0, 30))]
        workload.histories.append(prompt + reply)
        ids = ([token + SECRET for token in part] for part in (prompt, reply))
        rid = f"request-{number}"
        made.append(
            SimpleNamespace(rid=rid, origin_input_ids=next(ids), output_ids=next(ids), extra_key=None, cache_salt=None)
        )
    return made


def record(recorder: TraceRecorder, served: list[SimpleNamespace], rng: random.Random) -> None:
    """Up to four requests at a time, which end in any order."""
    running: list[SimpleNamespace] = []
    for request in served:
        for _piece in range(rng.randint(1, 3)):
            recorder.request_computed(request, None)
        running.append(request)
        if len(running) == 4 or rng.random() < 0.5:
            recorder.request_finished(running.pop(rng.randrange(len(running))))
    for request in running:
        recorder.request_finished(request)


def hits(trace: _core.Trace) -> list[int]:
    run = ReplayRun("marconi", 200_000, COST, alpha=0.5)
    return replay(trace, run).native.hit_tokens.tolist()


@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_recorded_trace_replays_to_the_same_hits(tmp_path: Path, with_tokens: bool) -> None:
    served = requests(3, 120)
    files = TraceFiles(tmp_path / "traces", "trace", file_mb=1, most_files=4)
    record(TraceRecorder(files, with_tokens), served, random.Random(3))
    builder = _core.TokenTraceBuilder()
    for request in served:
        builder.add(*(np.array(ids, dtype=np.uint32) for ids in (request.origin_input_ids, request.output_ids)))
    recorded = hits(read_trace(files.path))
    assert recorded == hits(builder.build())
    assert sum(recorded) > 0
    assert any(json.loads(line)["keep"] for line in files.path.read_text().splitlines())
    shown = {token for line in files.path.read_text().splitlines() for token in json.loads(line)["delta"]}
    tokens = {token for request in served for token in request.origin_input_ids}
    assert (shown <= tokens) is with_tokens
    assert bool(shown & tokens) is with_tokens


def test_files_rotate_and_each_is_a_trace_of_its_own(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path, "trace", file_mb=1, most_files=2)
    recorder = TraceRecorder(files, with_tokens=False)
    history: list[int] = []
    for number in range(400):
        if number % 5 == 0:
            history = list(range(number, number + 4000))
        reply = [number] * 40
        request = SimpleNamespace(
            rid=str(number), origin_input_ids=[*history, 7], output_ids=reply, extra_key=None, cache_salt=None
        )
        record(recorder, [request], random.Random(number))
        history = [*history, 7, *reply]
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 2 and kept[-1] == files.path
    assert int(kept[0].stem.rpartition("-")[2]) > 1
    assert all(len(read_trace(path)) > 0 for path in kept if path.stat().st_size)


def test_namespaces_share_nothing_in_a_trace(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path, "trace", file_mb=1, most_files=2)
    recorder = TraceRecorder(files, with_tokens=False)
    for number, salt in enumerate(["a", "b", "a"]):
        request = SimpleNamespace(
            rid=str(number), origin_input_ids=[1, 2, 3, number], output_ids=[4], extra_key=None, cache_salt=salt
        )
        record(recorder, [request], random.Random(0))
    one, other, again = (json.loads(line)["delta"] for line in files.path.read_text().splitlines())
    assert one[:3] == again[:3]
    assert not set(one) & set(other)


def test_a_request_that_never_ends_does_not_hold_back_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sglang_marconi.recording.recorder._MOST_OPEN", 25)
    files = TraceFiles(tmp_path, "trace", file_mb=1, most_files=2)
    recorder = TraceRecorder(files, with_tokens=False)
    lost, *served = requests(5, 80)
    recorder.request_computed(lost, None)
    record(recorder, served, random.Random(5))
    assert len(files.path.read_text().splitlines()) == len(served)
