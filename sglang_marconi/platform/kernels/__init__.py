"""Plain-torch versions of the Triton kernels that hybrid models launch, one file per kernel family.

Each function takes the arguments of the SGLang function it stands for, so it can be bound in its place. Scans run
in float64: on a CPU that costs little, and it makes a prefix resumed at any token agree with one pass to the last
digits of float32, which is what a prefix cache has to be tested against.
"""
