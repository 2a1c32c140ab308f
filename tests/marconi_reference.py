"""Policy marconi in the bytes budget, slow and obvious: the specification of the native simulator.

A cached prefix is a tuple of tokens; ``kv`` holds every prefix that has KV, one per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sglang_marconi.cost import PrefixCost

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    hit: int
    never_seen: int
    not_admitted: int
    evicted: int
    kv_bytes: int
    state_bytes: int
    leaf_victims: int
    inner_victims: int


class MarconiReference:
    def __init__(
        self, capacity: int, cost: PrefixCost, alpha: float, recency: str, bytes_form: str, min_branch_gain: int
    ) -> None:
        self.capacity, self.cost, self.alpha = capacity, cost, alpha
        self.recency, self.bytes_form, self.min_branch_gain = recency, bytes_form, min_branch_gain
        self.kv: set[Tokens] = set()
        self.states: dict[Tokens, int] = {}
        self.seen: set[Tokens] = set()
        self.had_state: set[Tokens] = set()
        self.clock = 0

    def held(self) -> int:
        return len(self.kv) * self.cost.kv_bytes_per_token + len(self.states) * self.cost.state_bytes

    def children(self, prefix: Tokens) -> int:
        return sum(len(p) == len(prefix) + 1 and p[:-1] == prefix for p in self.kv)

    def serve(self, prompt: Tokens, reply: Tokens) -> Outcome:
        sequence = prompt + reply
        usable = range(1, len(prompt))
        hit = max((n for n in usable if prompt[:n] in self.states), default=0)
        once = max((n for n in usable if prompt[:n] in self.had_state), default=0)
        seen = max((n for n in range(len(prompt) + 1) if prompt[:n] in self.seen), default=0)
        once = max(once, hit)
        if hit:
            self.touch(prompt[:hit])
        victims = self.admit(sequence, self.checkpoints(prompt, sequence, hit))
        self.seen.update(sequence[:n] for n in range(1, len(sequence) + 1))
        return Outcome(
            hit,
            len(prompt) - seen,
            seen - once,
            once - hit,
            len(self.kv) * self.cost.kv_bytes_per_token,
            len(self.states) * self.cost.state_bytes,
            victims.count("leaf"),
            victims.count("inner"),
        )

    def checkpoints(self, prompt: Tokens, sequence: Tokens, hit: int) -> list[Tokens]:
        branch = max((n for n in range(len(prompt) + 1) if n == 0 or prompt[:n] in self.kv), default=0)
        is_branch = 0 < branch < len(sequence) and prompt[:branch] not in self.states
        chosen = [prompt[:branch]] if is_branch and branch - hit >= max(1, self.min_branch_gain) else []
        return [*chosen, sequence] if sequence else []

    def admit(self, sequence: Tokens, chosen: list[Tokens]) -> list[str]:
        path = [sequence[:n] for n in range(1, len(sequence) + 1)]
        states = {prefix for prefix in path if prefix in self.states} | set(chosen)
        cost = self.cost
        if not chosen or len(path) * cost.kv_bytes_per_token + len(states) * cost.state_bytes > self.capacity:
            return []
        self.kv.update(path)
        for prefix in chosen:
            self.had_state.add(prefix)
            self.touch(prefix)
        victims = []
        while self.held() > self.capacity:
            victims.append(self.evict(self.victim(set(path))))
        return victims

    def touch(self, prefix: Tokens) -> None:
        self.clock += 1
        self.states[prefix] = self.clock

    def evict(self, victim: Tokens) -> str:
        del self.states[victim]
        if self.children(victim):
            return "inner"
        while victim and victim not in self.states and not self.children(victim):
            self.kv.remove(victim)
            victim = victim[:-1]
        return "leaf"

    def victim(self, locked: set[Tokens]) -> Tokens:
        unlocked = [prefix for prefix in self.states if prefix not in locked]
        candidates = [prefix for prefix in unlocked if self.children(prefix) <= 1] or unlocked
        scores = self.linear_scores(candidates) if self.recency == "linear" else self.inverse_scores(candidates)
        return min(candidates, key=lambda prefix: (scores[prefix], self.states[prefix]))

    def linear_scores(self, candidates: list[Tokens]) -> dict[Tokens, Fraction]:
        times = {prefix: Fraction(self.states[prefix]) for prefix in candidates}
        efficiencies = {prefix: Fraction(self.efficiency(prefix)) for prefix in candidates}

        def normalised(values: dict[Tokens, Fraction], prefix: Tokens) -> Fraction:
            low, high = min(values.values()), max(values.values())
            return Fraction(0) if low == high else (values[prefix] - low) / (high - low)

        alpha = Fraction(self.alpha)
        return {p: normalised(times, p) + alpha * normalised(efficiencies, p) for p in candidates}

    def inverse_scores(self, candidates: list[Tokens]) -> dict[Tokens, float]:
        ages = {prefix: 1.0 / float(self.clock + 1 - self.states[prefix]) for prefix in candidates}
        efficiencies = {prefix: self.efficiency(prefix) for prefix in candidates}

        def normalised(values: dict[Tokens, float], prefix: Tokens) -> float:
            low, high = min(values.values()), max(values.values())
            return 0.0 if low == high else (values[prefix] - low) / (high - low)

        return {p: normalised(ages, p) + self.alpha * normalised(efficiencies, p) for p in candidates}

    def efficiency(self, prefix: Tokens) -> float:
        resume = max((n for n in range(1, len(prefix)) if prefix[:n] in self.states), default=0)
        flops = self.cost.prefill_flops(len(prefix)) - self.cost.prefill_flops(resume)
        freed = self.cost.state_bytes
        if self.bytes_form == "path":
            freed += self.cost.kv_bytes_per_token * len(prefix)
        elif not self.children(prefix):
            freed += self.cost.kv_bytes_per_token * self.freed_tokens(prefix)
        return flops / freed if freed else 0.0

    def freed_tokens(self, leaf: Tokens) -> int:
        above = leaf[:-1]
        while above and above not in self.states and self.children(above) <= 1:
            above = above[:-1]
        return len(leaf) - len(above)
