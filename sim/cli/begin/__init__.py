"""Verbs for a beginning: the scenes that come with the package, and scenes of one's own."""
