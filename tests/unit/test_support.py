"""Every refusal and every notice: what sets it, what it says, and that docs/support.md says the same."""

from __future__ import annotations

import dataclasses
import logging
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang", reason="the options are SGLang's")

from sglang.srt.arg_groups.hicache_hook import handle_hicache
from sglang.srt.arg_groups.mamba_hook import handle_int8_mamba_checkpoint
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.registry import TreeCacheBuildContext
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

from sglang_marconi.cache.support import NOTICES, REFUSALS, refuse_unsupported, warn_of_notices
from sglang_marconi.config import MarconiConfig

ROOT = Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Setting:
    """How an option reaches the cache: SGLang's arguments, the cache's parameters, the build context, our own keys."""

    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    context: dict[str, Any] = dataclasses.field(default_factory=dict)
    config: dict[str, Any] = dataclasses.field(default_factory=dict)


SETTINGS = {
    "--radix-eviction-policy": Setting(parameters={"eviction_policy": "lfu"}),
    "--enable-hierarchical-cache": Setting(context={"enable_hierarchical_cache": True}),
    "--enable-lmcache": Setting(arguments={"enable_lmcache": True}),
    "--enable-flexkv": Setting(arguments={"enable_flexkv": True}),
    "--enable-session-radix-cache": Setting(parameters={"enable_session_radix_cache": True}),
    "--enable-unified-memory": Setting(arguments={"enable_unified_memory": True}),
    "--enable-linear-replayssm": Setting(arguments={"enable_linear_replayssm": True}),
    "--mamba-radix-cache-strategy extra_buffer_lazy": Setting(parameters={"enable_mamba_extra_buffer_lazy": True}),
    "--speculative-algorithm": Setting(arguments={"speculative_algorithm": "NGRAM"}),
    "--disaggregation-mode": Setting(arguments={"disaggregation_mode": "prefill"}),
    "--pp-size": Setting(parameters={"pp_size": 2}, config={"alpha": "auto"}),
    "--enable-pdmux": Setting(arguments={"enable_pdmux": True}),
    "--attn-cp-size": Setting(arguments={"tp_size": 2, "attn_cp_size": 2}),
    "--strip-thinking-cache": Setting(arguments={"strip_thinking_cache": True}),
    "--dcp-size": Setting(arguments={"dcp_size": 2}),
    "sliding-window attention": Setting(context={"is_hybrid_swa": True}),
    "--disable-radix-cache": Setting(context={"disable_radix_cache": True}),
    "a model without recurrent states": Setting(context={"is_hybrid_ssm": False}),
    "--enable-dp-attention": Setting(arguments={"tp_size": 2, "dp_size": 2, "enable_dp_attention": True}),
    "--chunked-prefill-size -1": Setting(parameters={"chunked_prefill_size": -1}),
}


#: What SGLang checks itself while it reads its arguments.
REFUSED_BY_SGLANG = {
    "--enable-int8-mamba-checkpoint": handle_int8_mamba_checkpoint,
    "--enable-unified-cache-external-linker": handle_hicache,
}


def context(setting: Setting) -> TreeCacheBuildContext:
    """What SGLang hands to the backend of a hybrid model, with one option set."""
    arguments = ServerArgs(model_path="dummy", **setting.arguments)
    set_global_server_args_for_scheduler(arguments)
    parameters: dict[str, Any] = {"chunked_prefill_size": 4096, **setting.parameters}
    fields: dict[str, Any] = {
        "is_hybrid_swa": False,
        "is_hybrid_ssm": True,
        "enable_hierarchical_cache": False,
        "disable_radix_cache": False,
        **setting.context,
    }
    return TreeCacheBuildContext(
        server_args=arguments,
        params=CacheInitParams(
            disable=False, req_to_token_pool=None, token_to_kv_pool_allocator=None, page_size=1, **parameters
        ),
        tp_worker=None,
        model_config=None,
        tp_size=1,
        tp_rank=0,
        tp_group=None,
        **fields,
    )


def test_a_plain_hybrid_server_is_neither_refused_nor_warned(caplog: pytest.LogCaptureFixture) -> None:
    plain = context(Setting())
    refuse_unsupported(plain, MarconiConfig())
    warn_of_notices(plain)
    assert not caplog.records


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.flag)
def test_the_refusal_names_the_flag_the_reason_and_the_remedy(refusal: Any) -> None:
    setting = SETTINGS[refusal.flag]
    with pytest.raises(ValueError, match=re.escape(refusal.flag)) as error:
        refuse_unsupported(context(setting), MarconiConfig(**setting.config))
    assert refusal.reason in str(error.value) and refusal.remedy in str(error.value)


@pytest.mark.parametrize("notice", NOTICES, ids=lambda notice: notice.flag)
def test_the_warning_names_the_option_and_its_effect(notice: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_notices(context(SETTINGS[notice.flag]))
    (record,) = caplog.records
    assert notice.flag in record.getMessage() and notice.effect in record.getMessage()


def test_stripped_thinking_is_served_where_prompt_ends_are_kept() -> None:
    refuse_unsupported(context(SETTINGS["--strip-thinking-cache"]), MarconiConfig(admit_prompt_end="always"))


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of docs/support.md, without its head."""
    section = (ROOT / "docs" / "support.md").read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def shown(option: str) -> str:
    return f"`{option}`" if option.startswith("--") else option


@pytest.mark.parametrize("flag", REFUSED_BY_SGLANG)
def test_sglang_refuses_it_for_every_backend_but_its_own(flag: str) -> None:
    field = flag.removeprefix("--").replace("-", "_")
    arguments = ServerArgs(model_path="dummy", radix_cache_backend="marconi", **{field: True})
    with pytest.raises(ValueError, match=flag):
        REFUSED_BY_SGLANG[flag](arguments)


def test_the_tables_in_the_docs_are_those_in_the_code() -> None:
    assert rows("Refused") == [[shown(refusal.flag), refusal.reason, refusal.remedy] for refusal in REFUSALS]
    assert [option for option, *_ in rows("Refused by SGLang")] == [shown(flag) for flag in REFUSED_BY_SGLANG]
    assert rows("Served with a warning") == [[shown(notice.flag), notice.effect, notice.remedy] for notice in NOTICES]


def test_every_test_that_the_docs_name_exists() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = [name for *_, tested_by in rows("Works") for name in re.findall(r"`(test_\w+)`", tested_by)]
    assert len(named) >= len(rows("Works"))
    for name in named:
        assert f"def {name}(" in sources, name
