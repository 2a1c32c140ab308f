"""The live cache: a radix cache of SGLang with judicious admission and FLOP-aware eviction."""
