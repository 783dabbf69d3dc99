"""Recording, and the way back."""
