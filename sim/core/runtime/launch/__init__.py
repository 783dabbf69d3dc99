"""From a kernel and its arguments to a run."""
