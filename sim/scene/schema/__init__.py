"""What may stand in a scene file: one line a key."""
