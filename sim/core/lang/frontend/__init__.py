"""From Python syntax trees to IR, by tracing."""
