"""Text to values: YAML with places, numbers with units."""
