"""Judicious admission: which positions deserve a state."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sglang_marconi.cache.admission import JudiciousAdmission


def admission(min_branch_gain: int = 32, grid: int = 1, admit_prompt_end: bool = False) -> JudiciousAdmission:
    return JudiciousAdmission(min_branch_gain, grid, admit_prompt_end)


@pytest.mark.parametrize(
    ("grid", "kv_match", "state_match", "branch"),
    [
        (1, 75, 0, 75),
        (64, 75, 0, 64),
        (64, 63, 0, None),
        (64, 230, 130, 194),
        (64, 190, 130, None),
        (1, 31, 0, None),
        (1, 32, 0, 32),
        (1, 100, 80, None),
        (1, 112, 80, 112),
        (1, 80, 80, None),
    ],
)
def test_branch_point_is_where_kv_ends_if_it_gains_enough(
    grid: int, kv_match: int, state_match: int, branch: int | None
) -> None:
    assert admission(grid=grid).branch_point(kv_match, state_match) == branch


def test_no_gain_is_never_a_branch_point() -> None:
    assert admission(min_branch_gain=0).branch_point(50, 50) is None
    assert admission(min_branch_gain=0).branch_point(51, 50) == 51


@pytest.mark.parametrize(("admit_prompt_end", "at_end"), [(False, False), (True, True)])
def test_state_is_wanted_at_the_branch_and_optionally_at_the_prompt_end(admit_prompt_end: bool, at_end: bool) -> None:
    policy = admission(admit_prompt_end=admit_prompt_end)
    chunk = SimpleNamespace(mamba_branching_seqlen=75, extend_end=75, origin_input_ids=[0] * 115)
    rest = SimpleNamespace(mamba_branching_seqlen=75, extend_end=115, origin_input_ids=[0] * 115)
    assert policy.wants_state(chunk, 75)
    assert policy.wants_state(rest, 115) is at_end
    assert not policy.wants_state(chunk, 70)
