"""Bodies, joints and rods beside closed forms: what `docs/physics.md` shows and `test_closed_forms.py` asks for."""

from closed_forms import bodies, curved, drives, rods, vibrations
from closed_forms.case import CASES, Case, Figure

__all__ = ["CASES", "Case", "Figure", "bodies", "curved", "drives", "rods", "vibrations"]
