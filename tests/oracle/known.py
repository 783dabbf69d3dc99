"""Programs of this folder whose numbers are not those of Warp, and why."""

DIFFERENT: dict[str, str] = {}
"""Warp is wrong, or leaves it open: what is right, and where that is tested."""
PENDING: dict[str, str] = {}
"""Not there yet."""
