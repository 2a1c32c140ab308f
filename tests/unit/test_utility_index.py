"""Known answers and refused arguments of the utility index."""

from __future__ import annotations

import math

import pytest

from sglang_marconi._core import UtilityIndex


def filled(alpha: float = 0.0, recency: str = "linear") -> UtilityIndex:
    """Node 0 is the oldest and dearest, node 2 the newest and cheapest."""
    index = UtilityIndex(alpha, recency)
    for node_id, (last_access, efficiency) in enumerate([(10, 8.0), (20, 4.0), (30, 0.0)]):
        index.insert(node_id, last_access, efficiency)
    return index


def popped(index: UtilityIndex, now: int = 0) -> list[int]:
    victims = []
    while (victim := index.pop_victim(now)) is not None:
        victims.append(victim)
    return victims


def test_empty_index_has_no_victim() -> None:
    index = UtilityIndex(1.0)
    assert index.victim() is None
    assert index.pop_victim() is None
    assert index.scores() == []


def test_alpha_zero_is_lru() -> None:
    assert popped(filled(0.0)) == [0, 1, 2]


def test_large_alpha_evicts_the_least_efficient_first() -> None:
    assert popped(filled(1e6)) == [2, 1, 0]


def test_equal_scores_evict_the_older_first() -> None:
    # At alpha 1 all three score exactly 1.
    assert filled(1.0).scores() == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert popped(filled(1.0)) == [0, 1, 2]


def test_equal_scores_and_times_evict_the_lower_id_first() -> None:
    index = UtilityIndex(0.5)
    for node_id in (9, 3, 7):
        index.insert(node_id, 5, 2.0)
    assert popped(index) == [3, 7, 9]


def test_a_difference_that_doubles_turn_around_decides() -> None:
    # Scores times both ranges: 3 * 2**60 + 380 against 3 * (2**60 + 127), which is 1 more. In doubles the
    # time stamps round apart and the second would be 512 less.
    newest = 3 * 2**60 + 380
    index = UtilityIndex(1.0)
    index.insert(0, 0, 1.0)
    index.insert(1, 2**60 + 127, 0.0)
    index.insert(2, newest, 3.0)
    assert index.victim() == 0
    index.touch(1, 2**60 + 126)
    assert index.victim() == 1


def test_inverse_age_makes_all_but_the_newest_equally_old() -> None:
    assert popped(filled(0.5, "inverse_age"), now=31) == [1, 0, 2]
    scores = dict(filled(0.5, "inverse_age").scores(now=31))
    assert scores[0] == 0.5
    assert scores[2] == 1.0
    assert scores[1] == (1 / 11 - 1 / 21) / (1 - 1 / 21) + 0.25


def test_locked_node_is_no_candidate_and_does_not_normalise() -> None:
    index = filled(1.0)
    index.insert(3, 1_000_000, 8.0)  # next to it the others are equally old
    assert index.victim() == 2
    assert index.lock(3) is True
    assert index.lock(3) is False
    assert (index.size(), index.candidates()) == (4, 3)
    assert index.scores() == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert index.victim() == 0
    assert index.unlock(3) is True
    assert index.unlock(3) is False
    assert index.victim() == 2


def test_locked_node_keeps_what_was_set_meanwhile() -> None:
    index = filled(0.0)
    index.lock(1)
    index.touch(1, 5)
    index.set_efficiency(1, 6.0)
    index.unlock(1)
    assert (index.last_access(1), index.efficiency(1)) == (5, 6.0)
    assert index.victim() == 1


def test_removed_and_cleared_nodes_are_gone() -> None:
    index = filled()
    index.remove(0)
    assert 0 not in index
    assert index.victim() == 1
    index.clear()
    assert len(index) == 0
    assert index.victim() is None
    index.insert(0, 1, 1.0)
    assert index.victim() == 0


def test_form_and_alpha_can_change_at_any_time() -> None:
    index = filled(0.0)
    assert (index.alpha, index.recency) == (0.0, "linear")
    index.set_alpha(0.5)
    index.set_recency_form("inverse_age")
    assert (index.alpha, index.recency) == (0.5, "inverse_age")
    assert index.victim(31) == 1


@pytest.mark.parametrize("alpha", [-1.0, math.nan, math.inf])
def test_refuses_alpha(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0"):
        UtilityIndex(alpha)
    index = filled(0.5)
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0"):
        index.set_alpha(alpha)
    assert index.alpha == 0.5


@pytest.mark.parametrize("efficiency", [-1.0, math.nan, math.inf])
def test_refuses_efficiency(efficiency: float) -> None:
    index = filled()
    for change in (
        lambda: index.insert(7, 1, efficiency),
        lambda: index.set_efficiency(0, efficiency),
        lambda: index.update(0, 99, efficiency),
    ):
        with pytest.raises(ValueError, match="efficiency must be a finite number >= 0"):
            change()
    assert 7 not in index
    assert (index.last_access(0), index.efficiency(0)) == (10, 8.0)


def test_refuses_ids() -> None:
    index = filled()
    with pytest.raises(ValueError, match="node id must be >= 0, got -1"):
        index.insert(-1, 1, 1.0)
    with pytest.raises(ValueError, match="node 2 is in the index already"):
        index.insert(2, 1, 1.0)
    assert index.last_access(2) == 30
    assert len(index) == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.remove(5),
        lambda index: index.touch(5, 1),
        lambda index: index.set_efficiency(5, 1.0),
        lambda index: index.update(5, 1, 1.0),
        lambda index: index.lock(5),
        lambda index: index.unlock(5),
        lambda index: index.is_locked(5),
        lambda index: index.last_access(5),
        lambda index: index.efficiency(5),
    ],
)
def test_unknown_id_is_a_key_error(call) -> None:
    index = filled()
    with pytest.raises(KeyError, match="node 5 is not in the index"):
        call(index)
    assert popped(index) == [0, 1, 2]


def test_refuses_unknown_recency() -> None:
    with pytest.raises(ValueError, match='recency must be linear or inverse_age, got "age"'):
        UtilityIndex(0.0, "age")
    index = filled()
    with pytest.raises(ValueError, match='got ""'):
        index.set_recency_form("")
    assert index.recency == "linear"


def test_inverse_age_refuses_a_clock_that_is_not_later() -> None:
    index = filled(1.0, "inverse_age")
    for call in (index.victim, index.pop_victim, index.scores):
        with pytest.raises(ValueError, match="now must be later than every last access"):
            call(30)
    assert len(index) == 3


@pytest.mark.parametrize("last_access", [-1, 2**64, 1.5, "7"])
def test_refuses_a_time_stamp_that_is_no_uint64(last_access) -> None:
    index = filled()
    with pytest.raises(TypeError):
        index.insert(7, last_access, 1.0)
    assert 7 not in index
