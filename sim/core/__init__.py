"""The core: the kernel language, its back ends, the runtime, optimisers."""
