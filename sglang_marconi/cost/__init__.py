"""FLOPs and bytes of a prefix."""
