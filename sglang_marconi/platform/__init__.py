"""SGLang on a CPU: platform, reference kernels, tiny models."""
