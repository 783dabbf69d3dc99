"""When in a step contacts close, and what forces do before and after that."""
