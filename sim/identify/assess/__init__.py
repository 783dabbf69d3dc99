"""What a result is worth."""
