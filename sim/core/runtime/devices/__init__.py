"""What runs and remembers: processors, GPUs, streams, captured graphs."""
