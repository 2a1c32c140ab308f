"""Whatever happens to a request, or inside the policy, no slot is lost and the others' answers stay exact."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import STRATEGIES, STRICT, ServerFactory, Tokens, check_pools_whole, marconi
from random_requests import RandomRequests, Served, check_exact
from soak import MEMORY

from sglang_marconi.platform.server import Generation, TinyServer


@pytest.fixture(scope="module", params=sorted(STRATEGIES))
def strategy(request: pytest.FixtureRequest) -> str:
    """Each strategy in turn; the tests of one share its server where their flags allow."""
    chosen: str = request.param
    return chosen


def test_exceptions_in_the_policy_cost_no_request_and_no_slot(tiny_model: Callable[[str], Path], strategy: str) -> None:
    config = {"alpha": "auto", "bootstrap_multiplier": 1}
    flags = {**STRATEGIES[strategy], **MEMORY[strategy], "radix-eviction-policy-config": config, "enable-metrics": True}
    model = tiny_model("falcon_h1")
    with TinyServer(model, backend="marconi", flags=flags, environment=STRICT, module="failing_server") as server:
        assert "marconi" not in server.server_info()["internal_states"][0]
        served = RandomRequests(seed=3).send(server, 60)
        check_pools_whole(server)
        check_exact(server, served)
        check_pools_whole(server)
        stats = marconi(server)["stats"]
        failed = re.findall(r"marconi: (.*) failed; serving goes on", server.log())
    assert sum(answer.cached_tokens for _, answer in served) > 0
    assert stats["policy_failures"] > len(failed)
    assert sorted(failed) == [
        "admitting a state",
        "choosing a branch point",
        "choosing a leaf to evict",
        "choosing a state to evict",
        "copying a state for the tree",
        "describing the cache",
        "following the tree",
        "recording requests for tuning",
        "splitting a prefill",
        "taking the last token's state",
    ]


# ---- requests that end early ----

CHUNK = 64
SMALL_CHUNKS = {"chunked-prefill-size": CHUNK, "max-total-tokens": 8192, "max-mamba-cache-size": 40}


def locked_kv_tokens(server: TinyServer) -> int:
    tokens: int = marconi(server)["pools"]["kv"]["locked"]
    return tokens


def used_kv_tokens(server: TinyServer) -> int:
    """Tokens in the slots that running requests hold, in the tree or not."""
    pool = marconi(server)["pools"]["kv"]
    used: int = pool["total"] - pool["free"] - pool["cached"]
    return used


def abort_once(server: TinyServer, running: Future[Generation], name: str, is_time: Callable[[], bool]) -> None:
    while not running.done() and not is_time():
        pass
    server.abort(name)


def test_abort_while_a_prompt_is_computed_in_chunks(serve: ServerFactory, strategy: str) -> None:
    """A branch point lies ahead when the request goes, and the pieces that it published stay whole."""
    tokens = Tokens(21)
    server = serve(strategy=strategy, flags=SMALL_CHUNKS)
    shared = tokens(3200)
    first = server.generate(shared + tokens(64), 2)
    other = shared + tokens(2000)
    with ThreadPoolExecutor(1) as pool:
        aborted = pool.submit(server.generate, other, 8, rid="chunked")
        abort_once(server, aborted, "chunked", lambda: locked_kv_tokens(server) > 0)
        with pytest.raises(RuntimeError, match="abort"):
            aborted.result()
    check_pools_whole(server)
    check_exact(server, [(other, server.generate(other, 8))])
    assert first.cached_tokens == 0
    check_pools_whole(server)


def test_abort_while_decoding(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(22)
    server = serve(strategy=strategy, flags=SMALL_CHUNKS)
    prompt = tokens(2 * CHUNK + 1)
    with ThreadPoolExecutor(1) as pool:
        aborted = pool.submit(server.generate, prompt, 2000, rid="decoding")
        abort_once(server, aborted, "decoding", lambda: locked_kv_tokens(server) >= 2 * CHUNK)
        with pytest.raises(RuntimeError, match="abort"):
            aborted.result()
    check_pools_whole(server)
    longer = prompt + tokens(30)
    check_exact(server, [(longer, server.generate(longer, 8))])


def test_aborts_that_meet_requests_as_they_finish(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(23)
    server = serve(strategy=strategy, flags=SMALL_CHUNKS)
    served: list[Served] = []
    with ThreadPoolExecutor(1) as pool:
        for number in range(40):
            prompt = tokens(20)
            name = f"finishing-{number}"
            running = pool.submit(server.generate, prompt, 4, rid=name)
            time.sleep(0.004 * (number % 20))  # of the 0.08 s or so that such a request takes
            server.abort(name)
            try:
                served.append((prompt, running.result()))
            except RuntimeError as error:
                assert "abort" in str(error)
    check_pools_whole(server)
    check_exact(server, served)


def test_requests_that_time_out(tiny_model: Callable[[str], Path], strategy: str) -> None:
    tokens = Tokens(24)
    flags = {**STRATEGIES[strategy], "enable-metrics": True, "max-running-requests": 1, "max-total-tokens": 20_000}
    limits = {"SGLANG_REQ_WAITING_TIMEOUT": "0.5", "SGLANG_REQ_RUNNING_TIMEOUT": "2"}
    model = tiny_model("falcon_h1")
    with TinyServer(model, backend="marconi", flags=flags, environment={**STRICT, **limits}) as server:
        history = tokens(200)
        history += server.generate(history, 8).token_ids
        with ThreadPoolExecutor(2) as pool:
            running = pool.submit(server.generate, tokens(100), 15_000)
            while locked_kv_tokens(server) == 0:
                assert not running.done()
            waiting = pool.submit(server.generate, history + tokens(20), 4)  # matches what the first left
            for request, reason in ((waiting, "waiting timeout"), (running, "running timeout")):
                with pytest.raises(RuntimeError, match=reason):
                    request.result()
        check_pools_whole(server)
        prompt = history + tokens(30)
        answer = server.generate(prompt, 8)
        assert answer.cached_tokens > 0
        check_exact(server, [(prompt, answer)])


#: Room for less than four such requests, admitted as if there were more.
CROWDED: dict[str, object] = {
    "max-total-tokens": 900,
    "max-running-requests": 4,
    "schedule-conservativeness": 0.01,
    "enable-priority-scheduling": True,
    "priority-scheduling-preemption-threshold": 1,
}


def test_case_13_requests_retracted_while_decoding_go_on_exactly(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(25)
    server = serve(strategy=strategy, flags=CROWDED)
    shared = tokens(60)
    prompts = [shared + tokens(20) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda prompt: server.generate(prompt, 200, ignore_eos=False), prompts))
    assert sum(answer.meta["num_retractions"] for answer in answers) > 0
    check_pools_whole(server)
    check_exact(server, list(zip(prompts, answers, strict=True)))
    check_pools_whole(server)


def test_urgent_requests_that_preempt_running_ones(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(26)
    server = serve(strategy=strategy, flags=CROWDED)
    shared = tokens(60)
    prompts = [shared + tokens(20 + number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(server.generate, prompt, 120, priority=0) for prompt in prompts[:4]]
        while used_kv_tokens(server) < sum(len(prompt) for prompt in prompts[:4]):
            assert not any(request.done() for request in running)
        urgent = [pool.submit(server.generate, prompt, 20, priority=10) for prompt in prompts[4:]]
        answers = [request.result() for request in running + urgent]
    assert sum(answer.meta["num_retractions"] for answer in answers[:4]) > 0
    assert not any(answer.meta["num_retractions"] for answer in answers[4:])
    check_pools_whole(server)
    check_exact(server, list(zip(prompts, answers, strict=True)))
    check_pools_whole(server)
