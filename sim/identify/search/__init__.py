"""How it is made small."""
