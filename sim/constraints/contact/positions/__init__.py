"""Contacts as constraints on positions: warm start, projection, and the sweep over pairs of surfaces."""
