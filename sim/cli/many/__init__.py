"""Many searches at once, from the command line."""
