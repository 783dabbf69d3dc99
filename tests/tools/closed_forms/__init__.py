"""Bodies, joints, contacts, rods beside closed forms: what `docs/physics.md` shows, `test_closed_forms.py` asks for."""

from tools.closed_forms import bodies, contacts, curved, drives, rods, vibrations
from tools.closed_forms.case import CASES, Case, Figure

__all__ = ["CASES", "Case", "Figure", "bodies", "contacts", "curved", "drives", "rods", "vibrations"]
