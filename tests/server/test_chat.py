"""OpenAI-style chat, and models without states."""

from __future__ import annotations

from conftest import ServerFactory, Tokens, check_pools_whole


def test_second_turn_hits_everything_up_to_the_first_reply(serve: ServerFactory) -> None:
    server = serve(strategy="no_buffer", flags={"enable-cache-report": True})
    messages = [{"role": "user", "content": "Which flights leave on Monday? " * 3}]
    first = server.chat(messages, 12, ignore_eos=True)
    reply = first["choices"][0]["message"]["content"]
    messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": "And on Tuesday?"}]
    second = server.chat(messages, 4)
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    # The last token of a reply has no KV yet when the request ends.
    assert cached == first["usage"]["total_tokens"] - 1
    check_pools_whole(server)


def test_plain_transformer_gets_sglangs_own_cache(serve: ServerFactory) -> None:
    server = serve("llama", strategy=None)
    prompt = Tokens(8)(100)
    assert server.generate(prompt, 4).cached_tokens == 0
    assert server.generate(prompt, 4).cached_tokens == 99
    assert "marconi" not in server.server_info()["internal_states"][0]
