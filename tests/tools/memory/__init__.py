"""Memory that finds mistakes."""
