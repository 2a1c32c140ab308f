"""Traces from elsewhere: conversations in text, Qwen-Bailian blocks, SGLang's dumps; compression; times of arrival."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from click.testing import CliRunner

from sglang_marconi.cli import main
from sglang_marconi.cost import PrefixCost
from sglang_marconi.sim import ReplayRun, read_trace, replay
from sglang_marconi.sim.traces import Arrivals
from sglang_marconi.sim.traces.request_dump import read_request_dump
from sglang_marconi.sim.traces.session_trace import TokenSession, build_session_trace


def encode(text: str) -> list[int]:
    return list(text.encode())


def hits(trace: Any) -> list[int]:
    run = ReplayRun("marconi", 10**12, PrefixCost(1.0, 0.0, 1, 1), min_branch_gain_tokens=1)
    return [int(tokens) for tokens in replay(trace, run).native.hit_tokens]


def turns(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>"


MESSAGES = [("user", "question"), ("assistant", "answer"), ("user", "why?"), ("assistant", "because")]
FIRST_PROMPT = turns("user", "question") + "\n<|im_start|>assistant\n"
AFTER_FIRST = FIRST_PROMPT + "answer<|im_end|>"


def openai(messages: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in messages]


def sharegpt(messages: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"from": {"user": "human", "assistant": "gpt"}[role], "value": text} for role, text in messages]


RECORDS: dict[str, dict[str, Any]] = {
    "openai": {"messages": openai(MESSAGES)},
    "parts": {"messages": [{"role": r, "content": [{"type": "text", "text": t}]} for r, t in MESSAGES]},
    "lmsys": {"conversation_id": "a", "model": "m", "conversation": openai(MESSAGES)},
    "swe-agent": {"trajectory": [{"action": "ls"}], "history": openai(MESSAGES), "info": {}},
    "nebius": {
        "instance_id": "x",
        "trajectory": [{"role": {"assistant": "ai"}.get(r, r), "text": t} for r, t in MESSAGES],
    },
}


@pytest.mark.parametrize("kind", RECORDS)
def test_conversation_becomes_requests_that_extend_one_another(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text(json.dumps(RECORDS[kind]))
    trace = read_trace(path, encode=encode)
    assert trace.prompt_lengths()[0] == len(FIRST_PROMPT)
    assert trace.reply_lengths().tolist() == [len("answer<|im_end|>"), len("because<|im_end|>")]
    assert hits(trace) == [0, len(AFTER_FIRST)]


def test_array_of_sharegpt_is_read_and_its_pieces_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "sharegpt.json"
    pieces = [{"id": f"q_{n}", "conversations": sharegpt(MESSAGES[2 * n : 2 * n + 2])} for n in range(2)]
    other = {"id": "p_0", "conversations": sharegpt(MESSAGES[:2])}
    path.write_text(json.dumps([*pieces, other], indent=1))
    trace = read_trace(path, Arrivals("sequential"), encode=encode)
    prompts = trace.prompt_lengths().tolist()
    assert len(prompts) == 3
    assert prompts[0] == prompts[2] < prompts[1]


def test_both_sides_of_an_arena_battle_are_conversations(tmp_path: Path) -> None:
    path = tmp_path / "arena.jsonl"
    path.write_text(
        json.dumps({"question_id": 1, "conversation_a": openai(MESSAGES), "conversation_b": openai(MESSAGES)})
    )
    assert len(read_trace(path, encode=encode)) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"messages": "hi"}', "text.json:1: messages must be a list of messages, got str"),
        ('{"messages": [1]}', "text.json:1: messages must hold objects with a role and a text, got int"),
        (
            '{"messages": [{"content": "x"}]}',
            "text.json:1: messages must hold messages with a role (role, from) and a text",
        ),
        ('[{"messages": []}, {"x": 1}]', "text.json:2: a conversation needs one of conversations"),
        ('[{"messages": []}, 7]', "text.json:2: must be a JSON object, got 7"),
        ('[{"messages": []}, {]', "text.json:2: not JSON"),
    ],
)
def test_bad_record_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "text.json"
    path.write_text(content)
    with pytest.raises(ValueError) as error:
        read_trace(path, encode=encode)
    assert message in str(error.value)


def test_text_without_tokenizer_says_what_to_give(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text(json.dumps(RECORDS["openai"]))
    result = CliRunner().invoke(main, ["trace", "stats", str(path)])
    assert result.exit_code == 1
    assert "text.jsonl:1: conversations in text need --tokenizer" in result.output


def bailian(chat: int, parent: int, at: float, blocks: list[int], reply: int) -> str:
    record = {"chat_id": chat, "parent_chat_id": parent, "timestamp": at, "type": "text", "turn": 1}
    return json.dumps(record | {"input_length": 16 * len(blocks), "output_length": reply, "hash_ids": blocks})


def test_bailian_blocks_of_16_tokens_follow_their_parents(tmp_path: Path) -> None:
    path = tmp_path / "qwen.jsonl"
    lines = [bailian(1, -1, 0.0, [5, 6], 16), bailian(2, 1, 1.5, [5, 6, 7, 8], 4), bailian(3, -1, 2.0, [5, 9], 4)]
    path.write_text("\n".join(lines))
    trace = read_trace(path)
    assert trace.arrivals_s().tolist() == [0.0, 1.5, 2.0]
    # The child repeats prompt and reply; the stranger leaves after one block, where a state is kept from then on.
    assert hits(trace) == [0, 48, 0]


def test_bailian_line_with_too_few_hashes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "qwen.jsonl"
    path.write_text(bailian(1, -1, 0.0, [5, 6], 16).replace("32", "64"))
    with pytest.raises(ValueError, match=r"qwen.jsonl:1: hash_ids must have 4 ids for 64 tokens, got 2"):
        read_trace(path)


@pytest.mark.parametrize("end", ["", ".gz", ".zst"])
def test_compressed_files_are_read_whatever_their_name(tmp_path: Path, end: str) -> None:
    line = json.dumps({"session_id": 0, "ts": 0, "input_tokens": [1, 2], "output_tokens": [3]}) + "\n"
    content = (line * 300).encode()
    packed = {"": content, ".gz": gzip.compress(content), ".zst": zstd.compress(content)}[end]
    (tmp_path / "trace").write_bytes(packed)
    assert len(read_trace(tmp_path / "trace")) == 300
    if end:
        (tmp_path / "cut").write_bytes(packed[: len(packed) // 2])
        with pytest.raises(ValueError, match=r"cut:\d+"):
            read_trace(tmp_path / "cut")


class RunsCode:
    def __reduce__(self) -> Any:
        return os.mkdir, ("a-pickle-ran-code",)


def dump(path: Path, requests: list[Any]) -> Path:
    path.write_bytes(pickle.dumps({"server_args": RunsCode(), "requests": requests}))
    return path


def test_dump_of_sglang_is_read_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    io_struct = pytest.importorskip("sglang.srt.managers.io_struct")
    later = io_struct.GenerateReqInput(input_ids=[1, 2, 3, 4], sampling_params={"temperature": 0})
    sooner = io_struct.GenerateReqInput(input_ids=(1, 2), sampling_params={})
    path = dump(
        tmp_path / "a.pkl", [(later, {"output_ids": [5]}, 20.0, 21.0), (sooner, {"output_ids": [3]}, 10.0, 11.0)]
    )
    lines = list(read_request_dump(path, None))
    assert [(line["ts"], line["input_tokens"], line["output_tokens"]) for line in lines] == [
        (10.0, [1, 2], [3]),
        (20.0, [1, 2, 3, 4], [5]),
    ]
    assert not (tmp_path / "a-pickle-ran-code").exists()


def test_dump_is_converted_to_a_trace(tmp_path: Path) -> None:
    io_struct = pytest.importorskip("sglang.srt.managers.io_struct")
    for name, tokens in (("a", [1, 2]), ("b", [1, 2, 3, 4])):
        request = io_struct.GenerateReqInput(input_ids=tokens, sampling_params={})
        dump(tmp_path / f"{name}.pkl", [(request, {"output_ids": [3]}, float(len(tokens)), 9.0)])
    output = tmp_path / "trace.jsonl.zst"
    result = CliRunner().invoke(main, ["trace", "convert", str(tmp_path), "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert read_trace(output).prompt_lengths().tolist() == [2, 4]


def test_dump_with_text_only_asks_for_a_tokenizer(tmp_path: Path) -> None:
    io_struct = pytest.importorskip("sglang.srt.managers.io_struct")
    path = dump(tmp_path / "a.pkl", [(io_struct.GenerateReqInput(text="hi"), {"text": "ho"}, 1.0, 2.0)])
    with pytest.raises(ValueError, match=r"a.pkl, request 0: has its text only; give --tokenizer"):
        list(read_request_dump(path, None))
    assert [line["input_tokens"] for line in read_request_dump(path, encode)] == [[104, 105]]


def test_foreign_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match=r"a.pkl: no dump of requests of SGLang"):
        list(read_request_dump(path, None))


def sessions(count: int, replies: int) -> list[TokenSession]:
    import numpy as np

    tokens = np.arange(10 * replies, dtype=np.uint32)
    return [TokenSession(n, tokens, [(10 * t + 5, 10 * t + 10) for t in range(replies)]) for n in range(count)]


def test_sessions_start_at_the_rate_and_think_between_turns() -> None:
    arrivals = Arrivals(sessions_per_second=2.0, spacing="uniform", think_s=3.0, reply_s_per_token=0.1)
    trace = build_session_trace(iter(sessions(3, 2)), arrivals)
    # Starts at 0, 0.5, 1; five reply tokens take half a second, then three to think.
    assert trace.arrivals_s().tolist() == [0.0, 0.5, 1.0, 3.5, 4.0, 4.5]


def test_poisson_arrivals_have_the_mean_and_the_seed_decides() -> None:
    arrivals = Arrivals(sessions_per_second=2.0, seed=1)
    times = [when for when, *_ in arrivals.schedule(iter(sessions(2000, 1)))]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(1000, rel=0.1)
    assert times == [when for when, *_ in arrivals.schedule(iter(sessions(2000, 1)))]
    other = Arrivals(sessions_per_second=2.0, seed=2)
    assert times != [when for when, *_ in other.schedule(iter(sessions(2000, 1)))]


def test_sessions_are_read_when_they_start() -> None:
    read: list[int] = []

    def watched() -> Any:
        for session in sessions(100, 2):
            read.append(int(session.name))
            yield session

    arrivals = Arrivals(sessions_per_second=1.0, spacing="uniform", think_s=2.0, reply_s_per_token=0.0)
    schedule = arrivals.schedule(watched())
    for _ in range(20):
        next(schedule)
    assert len(read) < 20


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sessions_per_second": 0.0}, "sessions_per_second must be > 0"), ({"think_s": -1.0}, "think_s must be >= 0")],
)
def test_impossible_times_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Arrivals(**options)  # type: ignore[arg-type]
