"""Trace readers: what they read, and what they say of bad lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sglang_marconi._core import Trace
from sglang_marconi.cost import PrefixCost
from sglang_marconi.sim import ReplayRun, read_trace, replay
from sglang_marconi.sim.traces import Arrivals

COST = PrefixCost(1.0, 0.0, 1, 1)


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def hits(trace: Trace, branch_gain: int = 1) -> list[int]:
    run = ReplayRun("marconi", 10**12, COST, min_branch_gain_tokens=branch_gain)
    return replay(trace, run).native.hit_tokens.tolist()


def token_line(session: int, prompt: list[int], reply: list[int]) -> dict[str, Any]:
    return {"session_id": session, "turn_id": 0, "ts": 0.5, "input_tokens": prompt, "output_tokens": reply}


def test_token_trace_hits_the_last_decoded_token(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, token_line(0, [1, 2], [3]), token_line(0, [1, 2, 3, 4], [5])))
    assert len(trace) == 2
    assert trace.prompt_tokens == 6
    assert hits(trace) == [0, 3]


def test_compact_lines_continue_their_session(tmp_path: Path) -> None:
    first = {"session_id": "a", "ts": 0, "keep": 0, "delta": [1, 2], "output_tokens": [3]}
    other = {"session_id": "b", "ts": 1, "keep": 0, "delta": [1, 9], "output_tokens": [3]}
    again = {"session_id": "a", "ts": 2, "keep": 3, "delta": [4], "output_tokens": []}
    trace = read_trace(write(tmp_path, first, other, again))
    assert trace.prompt_tokens == 2 + 2 + 4
    assert hits(trace) == [0, 0, 3]


def test_gzip_and_empty_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "any-name"
    path.write_bytes(gzip.compress((json.dumps(token_line(0, [1], [2])) + "\n\n").encode()))
    assert len(read_trace(path)) == 1


def test_session_trace_takes_turns_or_runs_session_by_session(tmp_path: Path) -> None:
    a = {"session": 0, "tokens": [1, 2, 3, 4, 5], "turns": [[1, 2], [3, 5]]}
    b = {"session": 1, "tokens": [1, 9, 9, 8], "turns": [[3, 4]]}
    path = write(tmp_path, a, b)
    assert hits(read_trace(path)) == [0, 0, 2]
    assert hits(read_trace(path, Arrivals("sequential"))) == [0, 2, 0]


def test_block_trace_shares_whole_blocks(tmp_path: Path) -> None:
    def line(length: int, ids: list[int], reply: int) -> dict[str, Any]:
        return {"timestamp": 0, "input_length": length, "output_length": reply, "hash_ids": ids}

    trace = read_trace(
        write(
            tmp_path,
            line(1100, [2**63, 2, 3], 100),
            # Repeats prompt and reply: its first 1200 tokens are the first request's.
            line(1600, [2**63, 2, 4, 5], 10),
            line(1100, [2**63, 7, 8], 10),
        )
    )
    assert trace.prompt_tokens == 1100 + 1600 + 1100
    assert hits(trace) == [0, 1024, 0]
    native = replay(trace, ReplayRun("marconi", 10**12, COST)).native
    assert native.not_admitted_tokens.tolist() == [0, 0, 512]


def test_agent_blocks_are_told_apart_by_name_space(tmp_path: Path) -> None:
    def line(ts: float, name: str, blocks: list[list[int]], length: int) -> dict[str, Any]:
        return {
            "ts": ts,
            "ns": name,
            "session": name,
            "turn": 0,
            "input_len": length,
            "output_len": 64,
            "blocks": blocks,
        }

    lines = [
        line(0, "a", [[1, 2]], 128),
        line(1, "b", [[1, 2]], 128),
        line(2, "a", [[1, 4]], 256),
        line(3, "b", [[1, 1], [7, 3]], 256),
    ]
    trace = read_trace(write(tmp_path, *lines))
    native = replay(trace, ReplayRun("marconi", 10**12, COST)).native
    assert native.never_seen_tokens.tolist() == [128, 128, 64, 192]
    assert native.hit_tokens.tolist() == [0, 0, 192, 0]


def test_agent_tokens_start_from_any_earlier_turn(tmp_path: Path) -> None:
    def line(turn: int, base: int, keep: int, new: list[int], out: list[int]) -> dict[str, Any]:
        size = {"input_len": keep + len(new), "output_len": len(out)}
        return {"ts": turn, "session": "m", "turn": turn, "base": base, "keep": keep, "new": new, "out": out} | size

    trace = read_trace(write(tmp_path, line(0, -1, 0, [1, 2], [3]), line(1, 0, 2, [9], [8]), line(2, 0, 3, [4], [])))
    assert hits(trace) == [0, 0, 3]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ({"session_id": 0, "ts": 0, "output_tokens": []}, "the key 'input_tokens' is missing"),
        (token_line(0, [1], [-2]), r"output_tokens must be a list of integers in \[0, 2\^32\), got -2"),
        (token_line(0, [2**32], []), r"input_tokens must be .* got 4294967296"),
        (token_line(0, [True], []), "input_tokens must be .* got True"),
        (token_line(0, [1.5], []), "input_tokens must be .* got 1.5"),
        (token_line(0, [[1], [2]], []), "input_tokens must be"),  # type: ignore[list-item]
        (token_line(0, [1], []) | {"ts": "soon"}, "ts must be a finite number, got 'soon'"),
        (token_line(0, [1], []) | {"session_id": None}, "session_id must be an integer or a string, got None"),
        (token_line(0, [1], []) | {"num_input_tokens": 7}, r"num_input_tokens must be .* \(1\), got 7"),
        ({"session_id": 9, "ts": 0, "keep": 1, "delta": [], "output_tokens": []}, "keep must be 0"),
        ({"session_id": 0, "ts": 0, "keep": 8, "delta": [], "output_tokens": []}, "keep_tokens must be at most"),
    ],
)
def test_bad_token_line_is_named(tmp_path: Path, bad: Any, message: str) -> None:
    path = write(tmp_path, token_line(0, [1], [2]), bad)
    with pytest.raises(ValueError, match=rf"trace\.jsonl:2: .*{message}"):
        read_trace(path)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"what": 1}, "no trace format has these keys"),
        ({"session": 0, "tokens": [1, 2], "turns": [[1, 3]]}, "turns must be .* got \\[1, 3\\]"),
        ({"session": 0, "tokens": [1, 2], "turns": [[1, 2], [1, 2]]}, "turns must be .* after 2"),
        ({"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": []}, "hash_ids must have 2 ids"),
        ({"timestamp": 0, "input_length": -1, "output_length": 1, "hash_ids": []}, "input_length must be"),
        ({"ts": 0, "ns": "a", "input_len": 64, "output_len": 0, "blocks": [[1, 2]]}, "blocks must count at most 1"),
        ({"ts": 0, "ns": "a", "input_len": 64, "output_len": 0, "blocks": [3]}, "blocks must be .* got 3"),
        ({"ts": 0, "session": "a", "base": 0, "keep": 0, "new": [], "out": []}, "base must be an earlier turn"),
    ],
)
def test_bad_first_line_is_named(tmp_path: Path, bad: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"trace\.jsonl:1: .*{message}"):
        read_trace(write(tmp_path, bad))


def test_truncated_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(token_line(0, list(range(5000)), [])).encode())[:-20])
    with pytest.raises(ValueError, match=r"trace\.jsonl\.gz:1: cannot be read"):
        read_trace(path)


def test_empty_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the trace is empty"):
        read_trace(write(tmp_path))
