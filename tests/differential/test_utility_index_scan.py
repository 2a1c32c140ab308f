"""The utility index against a brute-force scan that knows nothing of hulls, trees or rounding."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from sglang_marconi._core import UtilityIndex

Draw = Callable[[random.Random], float]


@dataclass
class Node:
    last_access: int
    efficiency: float
    is_locked: bool = False


@dataclass
class Scan:
    """The specification: the least (score, last access, id) over the unlocked nodes."""

    alpha: float
    recency: str = "linear"
    nodes: dict[int, Node] = field(default_factory=dict)

    def victim(self, now: int) -> int | None:
        candidates = {i: n for i, n in self.nodes.items() if not n.is_locked}
        if not candidates:
            return None
        score = self._linear(candidates) if self.recency == "linear" else self._inverse_age(candidates, now)
        return min(candidates, key=lambda i: (score(candidates[i]), candidates[i].last_access, i))

    def _linear(self, candidates: dict[int, Node]) -> Callable[[Node], Fraction]:
        oldest, newest = _limits(n.last_access for n in candidates.values())
        low, high = (Fraction(e) for e in _limits(n.efficiency for n in candidates.values()))
        alpha = Fraction(self.alpha)

        def score(node: Node) -> Fraction:
            recency = Fraction(node.last_access - oldest, newest - oldest) if newest > oldest else Fraction(0)
            return recency + (alpha * (Fraction(node.efficiency) - low) / (high - low) if high > low else 0)

        return score

    def _inverse_age(self, candidates: dict[int, Node], now: int) -> Callable[[Node], float]:
        inverse = {i: 1.0 / float(now - n.last_access) for i, n in candidates.items()}
        longest, shortest = _limits(inverse.values())
        low, high = _limits(n.efficiency for n in candidates.values())

        def score(node: Node) -> float:
            value = 0.0
            if shortest > longest:
                value = (1.0 / float(now - node.last_access) - longest) / (shortest - longest)
            if high > low:
                value += self.alpha * ((node.efficiency - low) / (high - low))
            return value

        return score


def _limits(values):
    ordered = sorted(values)
    return ordered[0], ordered[-1]


@dataclass
class World:
    """How a scenario draws time stamps and efficiencies; `time` gets the number of the step."""

    time: Callable[[random.Random, int], int]
    efficiency: Draw


def _near_tie(rng: random.Random) -> float:
    return 1.0 + rng.randrange(8) * 2.0**-52


WORLDS = {
    "growing times, uniform efficiencies": World(lambda r, step: step, lambda r: r.random() * 1e12),
    "few distinct values": World(lambda r, step: r.randrange(6), lambda r: float(r.randrange(6))),
    "equal times": World(lambda r, step: 7, lambda r: float(r.randrange(50))),
    "equal efficiencies": World(lambda r, step: r.randrange(1000), lambda r: 3.25),
    "all equal": World(lambda r, step: 5, lambda r: 0.0),
    "small grid": World(lambda r, step: r.randrange(40), lambda r: r.randrange(40) / 8),
    "efficiencies over all magnitudes": World(
        lambda r, step: r.randrange(2**20), lambda r: 10.0 ** r.randrange(-300, 300)
    ),
    "subnormal efficiencies": World(lambda r, step: r.randrange(100), lambda r: r.randrange(100) * 2.0**-1074),
    "largest efficiencies": World(
        lambda r, step: r.randrange(2**63), lambda r: r.choice([0.0, 1.7e308, 1.79e308, 5e-324])
    ),
    "times near 2**53": World(lambda r, step: 2**53 + r.randrange(-20, 20), _near_tie),
    "times near 2**62": World(lambda r, step: 2**62 + r.randrange(-20, 20), _near_tie),
    "times over all of uint64": World(lambda r, step: r.randrange(2**64 - 1), lambda r: r.random()),
    "few places on a convex curve": World(lambda r, step: step % 40, lambda r: float(r.randrange(1, 40)) ** 2),
    "one outlier comes and goes": World(lambda r, step: step, lambda r: 1e15 if r.random() < 0.1 else r.random()),
}
ALPHAS = [0.0, 5e-324, 1e-9, 0.1, 0.5, 1.0, 2.0, 3.7, 1e6, 1e300]


def _step(rng: random.Random, step: int, world: World, index: UtilityIndex, scan: Scan, most_nodes: int) -> None:
    last_access, efficiency = world.time(rng, step), world.efficiency(rng)
    choices = ["insert"] * 3 if len(scan.nodes) < most_nodes else []
    if scan.nodes:
        choices += ["touch", "touch", "set_efficiency", "update", "remove", "lock", "unlock", "unlock", "pop"]
    match rng.choice(choices):
        case "insert":
            node_id = rng.randrange(10**12)
            while node_id in scan.nodes:
                node_id = rng.randrange(10**12)
            scan.nodes[node_id] = Node(last_access, efficiency)
            index.insert(node_id, last_access, efficiency)
        case "touch":
            node_id = rng.choice(list(scan.nodes))
            scan.nodes[node_id].last_access = last_access
            index.touch(node_id, last_access)
        case "set_efficiency":
            node_id = rng.choice(list(scan.nodes))
            scan.nodes[node_id].efficiency = efficiency
            index.set_efficiency(node_id, efficiency)
        case "update":
            node_id = rng.choice(list(scan.nodes))
            scan.nodes[node_id] = Node(last_access, efficiency, scan.nodes[node_id].is_locked)
            index.update(node_id, last_access, efficiency)
        case "remove":
            node_id = rng.choice(list(scan.nodes))
            del scan.nodes[node_id]
            index.remove(node_id)
        case "lock":
            node_id = rng.choice(list(scan.nodes))
            assert index.lock(node_id) is not scan.nodes[node_id].is_locked
            scan.nodes[node_id].is_locked = True
        case "unlock":
            node_id = rng.choice(list(scan.nodes))
            assert index.unlock(node_id) is scan.nodes[node_id].is_locked
            scan.nodes[node_id].is_locked = False
        case "pop":
            now = 2**64 - 1
            victim = scan.victim(now)
            assert index.pop_victim(now) == victim
            if victim is not None:
                del scan.nodes[victim]


def _later_than_all(rng: random.Random, scan: Scan) -> int:
    newest = max((n.last_access for n in scan.nodes.values()), default=0)
    return min(newest + rng.choice([1, 2, 1000, 2**40]), 2**64 - 1)


@pytest.mark.parametrize("recency", ["linear", "inverse_age"])
@pytest.mark.parametrize("most_nodes", [12, 150])
@pytest.mark.parametrize("name", WORLDS)
def test_victim_is_the_minimum_of_a_scan(name: str, most_nodes: int, recency: str) -> None:
    seed = f"{name} {most_nodes} {recency}"
    rng = random.Random(seed)
    index, scan = UtilityIndex(alpha=1.0, recency=recency), Scan(1.0, recency)
    for step in range(800):
        _step(rng, step, WORLDS[name], index, scan, most_nodes)
        if rng.random() < 0.1:
            scan.alpha = rng.choice(ALPHAS)
            index.set_alpha(scan.alpha)
        now = _later_than_all(rng, scan)
        assert index.victim(now) == scan.victim(now), f"seed {seed!r}, step {step}, alpha {scan.alpha}"
        assert len(index) == len(scan.nodes)
        assert index.candidates() == sum(not n.is_locked for n in scan.nodes.values())
