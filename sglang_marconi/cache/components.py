"""The KV and state components of the radix tree, with victims by utility and judicious admission."""

from __future__ import annotations

from typing import Any

from sglang_marconi.cache.last_token import live_state_is_at, track_live_state
from sglang_marconi.cache.observer import RequestObserver
from sglang_marconi.cache.policy import LivePolicy
from sglang_marconi.cache.tree_core import Node
from sglang_marconi.compat import (
    HEALTH_CHECK_RID_PREFIX,
    EvictLayer,
    EvictParams,
    FullComponent,
    LRURefreshPhase,
    MambaComponent,
    zero_match_result,
)


class MarconiKVComponent(FullComponent):
    """KV of the attention layers; victims are the leaves of least utility."""

    def __init__(self, cache: Any, params: Any, *, policy: LivePolicy) -> None:
        super().__init__(cache, params)
        self.stats = policy.stats

    def _evict_device_start(self, request_cnt: int) -> None:
        self._wanted_tokens = request_cnt

    def _evict_device_next_node(self, tracker: dict[Any, int], *frees: Any, cache_actions: list[Any]) -> int | None:
        if tracker[self.component_type] >= self._wanted_tokens:
            return None
        victim = self.tree_core.order.leaf_victim()
        if victim is None:
            return None
        self.stats.leaf_evicted(len(victim.key))
        return int(victim.id)

    def _evict_device_end(self) -> None:
        self._wanted_tokens = 0


class MarconiStateComponent(MambaComponent):
    """States of the recurrent layers: admitted judiciously, evicted by utility."""

    def __init__(self, cache: Any, params: Any, *, policy: LivePolicy) -> None:
        super().__init__(cache, params)
        self.policy = policy
        self.admission = policy.admission
        self.stats = policy.stats

    # ---- what happens to nodes ----

    def refresh_lru(self, phase: Any, node: Node, root_node: Node) -> None:
        super().refresh_lru(phase, node, root_node)
        # A hit touches only the node whose state is used (localised recency).
        if phase is LRURefreshPhase.MATCH_END and node is not root_node:
            self.tree_core.order.touch(node.id)

    def redistribute_on_node_split(self, new_parent: Node, child: Node) -> None:
        super().redistribute_on_node_split(new_parent, child)
        self.tree_core.order.node_split(new_parent.id, child.id, len(child.key))

    def commit_insert_component_data(
        self, node: Node, is_new_leaf: bool, params: Any, result: Any, cache_actions: list[Any]
    ) -> None:
        if params.mamba_value is None:
            return
        super().commit_insert_component_data(node, is_new_leaf, params, result, cache_actions)
        if result.mamba_exist:
            self.tree_core.order.touch(node.id)
        else:
            self.tree_core.order.state_admitted(node.id)

    def evict_component(
        self,
        node: Node,
        device_frees: dict[Any, Any],
        host_frees: dict[Any, Any],
        cache_actions: list[Any],
        target: Any = EvictLayer.DEVICE,
    ) -> tuple[int, int]:
        freed = super().evict_component(node, device_frees, host_frees, cache_actions, target)
        if freed[0]:
            self.stats.states_evicted += 1
            self.tree_core.order.state_evicted(node.id)
        return freed

    def acquire_component_lock(self, node: Node, result: Any, lock_host: bool = False) -> Any:
        result = super().acquire_component_lock(node, result, lock_host)
        self._report_lock(node)
        return result

    def release_component_lock(self, node: Node, params: Any, lock_host: bool = False) -> None:
        super().release_component_lock(node, params, lock_host)
        self._report_lock(node)

    def _report_lock(self, node: Node) -> None:
        if node is not self.tree_core.root_node:
            self.tree_core.order.set_state_locked(node.id, node.component_data[self.component_type].lock_ref > 0)

    # ---- eviction ----

    def _evict_device_start(self, request_cnt: int) -> None:
        self._wanted_states = request_cnt

    def _evict_device_next_node(
        self,
        tracker: dict[Any, int],
        device_frees: dict[Any, Any],
        host_frees: dict[Any, Any],
        cache_actions: list[Any],
    ) -> int | None:
        """A leaf to delete, or None after taking one inner node's state (or when done)."""
        if tracker[self.component_type] >= self._wanted_states:
            return None
        victim = self.tree_core.order.state_victim()
        if victim is None:
            return None
        if victim in self.tree_core.evictable_device_leaves:
            self.stats.leaf_evicted(len(victim.key))
            return int(victim.id)
        # An inner node, or a leaf whose KV a request uses: the KV stays.
        for evict in (self.tree_core._evict_component_and_detach_lru, self.tree_core._cascade_evict):
            evict(
                victim,
                self,
                tracker=tracker,
                device_frees=device_frees,
                host_frees=host_frees,
                target=EvictLayer.DEVICE,
                cache_actions=cache_actions,
            )
        return None

    def _evict_device_end(self) -> None:
        self._wanted_states = 0

    # ---- hits ----

    def finalize_match_result_in_cache(self, params: Any, result: Any) -> Any:
        """Copy the matched state for the request, and note where its prompt leaves the tree."""
        if params.req is not None:
            result = result._replace(mamba_branching_seqlen=self._branch_point(result))
        if params.cow_mamba and not self._reserve_state_slot(params.req, result.best_match_node):
            self.stats.hit_skipped_pool_full += 1
            return zero_match_result(self.cache, result)._replace(mamba_branching_seqlen=None)
        return super().finalize_match_result_in_cache(params, result)

    def _branch_point(self, result: Any) -> int | None:
        """Where the prompt leaves the tree, if it leaves it at all.

        A prompt that goes on from a node without children only extends it: its own end supersedes a
        state there (a turn whose predecessor's reply was evicted).
        """
        last_node_id = result.last_visited_node_id
        if last_node_id is None or not self.tree_core.node_by_id(last_node_id).children:
            return None
        try:
            return self.admission.branch_point(result.full_kv_hit_length, result.device_prefix_len)
        except Exception:
            self.policy.guard.failed("choosing a branch point")
            return None

    def _reserve_state_slot(self, req: Any, matched_node_id: int) -> bool:
        """Gives the request a slot for the matched state; False when every slot is in use."""
        if req.kv.holds_mamba or not self._node_holds_state(matched_node_id):
            return True
        slot = self._try_alloc_slot()
        if slot is None:
            lock = self.cache.inc_lock_ref(matched_node_id)
            try:
                slot = self._evict_and_alloc_slot()
            finally:
                self.cache.dec_lock_ref(matched_node_id, lock.to_dec_params())
        if slot is None:
            return False
        req.kv.mamba_pool_idx = slot[0]
        return True

    def _node_holds_state(self, node_id: int) -> bool:
        return self.tree_core.get_component_device_value(node_id, self.component_type) is not None

    def _try_alloc_slot(self) -> Any:
        return self.cache.req_to_token_pool.mamba_allocator.alloc(1)

    def _evict_and_alloc_slot(self) -> Any:
        self.cache.evict_for_alloc(EvictParams(num_tokens=0, mamba_num=1))
        return self._try_alloc_slot()

    # ---- admission ----

    def prepare_for_caching_req(
        self, req: Any, insert_params: Any, token_ids_len: int, is_finished: bool
    ) -> int | None:
        """How much of the request to insert; fills in the state when it deserves one."""
        if not req.rid.startswith(HEALTH_CHECK_RID_PREFIX):
            for observer in self.cache.observers:
                self._tell(observer, req, is_finished)
        if is_finished:
            return self._prepare_finished(req, insert_params, token_ids_len)
        position = self._checkpoint_position(req, token_ids_len)
        if position and self._wants_state(req, position):
            slot = self._try_alloc_slot()
            if slot is None:
                slot = self._evict_and_alloc_slot()
            if slot is not None:
                insert_params.mamba_value = self._fork_state(req, slot)
            else:
                self.stats.state_skipped_pool_full += 1
        return position

    def _wants_state(self, req: Any, position: int) -> bool:
        try:
            return self.admission.wants_state(req, position)
        except Exception:
            self.policy.guard.failed("admitting a state")
            return False

    def _prepare_finished(self, req: Any, insert_params: Any, token_ids_len: int) -> int | None:
        """The finished request's last state: its live one where a key can name it, else the tracked one."""
        is_exact = self._takes_live_state(req, token_ids_len)
        if not is_exact and not self.cache.enable_mamba_extra_buffer:
            return token_ids_len
        return super().prepare_for_caching_req(req, insert_params, token_ids_len, is_finished=True)

    def _takes_live_state(self, req: Any, token_ids_len: int) -> bool:
        """Whether the finished request's live state is the one that SGLang now gives to the tree."""
        try:
            if not live_state_is_at(req, token_ids_len, self.cache.page_size):
                return False
            if self.cache.enable_mamba_extra_buffer:
                track_live_state(self.cache.req_to_token_pool, req)
            return True
        except Exception:
            self.policy.guard.failed("taking the last token's state")
            return False

    def _tell(self, observer: RequestObserver, req: Any, is_finished: bool) -> None:
        # A request that finishes with its prefill comes here once.
        try:
            observer.request_computed(req, self.tree_core.root_node)
            if is_finished:
                observer.request_finished(req)
        except Exception:
            self.policy.guard.failed(observer.purpose)
            observer.reset()

    def _checkpoint_position(self, req: Any, token_ids_len: int) -> int:
        """Tokens after which SGLang holds a state of the running request that a key can name."""
        if self.cache.enable_mamba_extra_buffer:
            return req.kv.mamba_last_track_seqlen or 0
        return token_ids_len

    def _fork_state(self, req: Any, slot: Any) -> Any:
        """A slot with the request's state for the tree, or None; the request keeps a slot of its own."""
        try:
            return self._hand_over(self.cache.req_to_token_pool, req, slot)
        except Exception:
            self.policy.guard.failed("copying a state for the tree")
            self.cache.req_to_token_pool.mamba_allocator.free(slot)
            return None

    def _hand_over(self, pool: Any, req: Any, slot: Any) -> Any:
        if self.cache.enable_mamba_extra_buffer:
            return pool.donate_mamba_ping_pong_slot(req, slot)  # its one assignment is its last step
        translate = pool.translate_mamba_indices
        pool.mamba_pool.copy_from(translate(req.kv.mamba_pool_idx.unsqueeze(0)), translate(slot))
        return slot

    def cleanup_after_caching_req(
        self, req: Any, is_finished: bool, insert_result: Any = None, insert_params: Any = None
    ) -> None:
        self._count_admission(req, is_finished, insert_result, insert_params)
        state_handed_over = insert_params is not None and insert_params.mamba_value is not None
        if not is_finished and not state_handed_over:
            # The tracked state is still the request's latest.
            return
        if not state_handed_over:
            insert_result = None  # so that SGLang frees the request's own slots
        super().cleanup_after_caching_req(req, is_finished, insert_result, insert_params)

    def _count_admission(self, req: Any, is_finished: bool, insert_result: Any, insert_params: Any) -> None:
        if insert_result is None or insert_result.mamba_exist or insert_params.mamba_value is None:
            return
        if is_finished:
            self.stats.last_token_states_admitted += 1
        elif len(insert_params.key) == req.mamba_branching_seqlen:
            self.stats.branch_states_admitted += 1
        else:
            self.stats.prompt_end_states_admitted += 1
