"""Verbs about what can be trusted: of finished runs, and before an experiment is made."""
