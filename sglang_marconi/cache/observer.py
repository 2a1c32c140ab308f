"""What follows the requests of a live cache."""

from __future__ import annotations

from typing import Any, Protocol


class RequestObserver(Protocol):
    """Told of each request; a failure is counted, costs the request nothing, and resets the observer."""

    #: What a failure is reported as.
    purpose: str

    def request_computed(self, req: Any, root: Any) -> None:
        """A piece of the request's prompt was computed; called before the tree takes it."""

    def request_finished(self, req: Any) -> None:
        """The request leaves; called before the tree takes its reply."""

    def reset(self) -> None:
        """The cache was flushed."""
