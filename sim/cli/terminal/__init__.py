"""What the command shows in a terminal: tables, what a run found, a live view of a search."""
