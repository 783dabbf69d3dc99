"""Small scenes and identification problems, as files."""
