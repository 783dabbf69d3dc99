"""`contact`: which objects collide with themselves and with each other, and how their pairs, and bodies, are found."""

from __future__ import annotations

from sim.scene.schema.keys.common import key
from sim.schema.containers import List, Map, Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Int, NameOf, Number

# fmt: off
CONTACT = Table((
    key("self", List(NameOf("objects")), "cloths and solids whose surfaces collide with themselves and with each other",
        []),
    key("friction", Union((Number("", NOT_NEGATIVE),
                           Map(Number("", NOT_NEGATIVE), keys="objects", model_path="contact.friction.{2}"))),
        "coefficient of friction between them, one or that of each object; of two the mean counts", 0, may_vary=True,
        model_path="contact.friction"),
    key("thickness", Number("m", POSITIVE), "distance that their surfaces keep; default: `thickness` of both objects, "
        "added up", may_vary=True, model_path="contact.thickness"),
    key("margin", Number("m", POSITIVE), "points may move half of it from one look for pairs to the next, beside what "
        "their velocities say; default: a quarter of the mean edge"),
    key("every", Int(1), "substeps from one look for pairs to the next", 10),
    key("capacity", Int(1), "room for pairs of points and triangles, and for as many of edges; default: 4000, and 16 "
        "for each point"),
    key("bodies", Table((
        key("margin", Number("m", POSITIVE), "a step may push a shape so far beyond where it would go without "
            "contacts, and half of its way; default: a tenth of the least half width at most"),
        key("capacity", Int(1), "room for near pairs of shapes, of each two kinds; default: 64, and 8 for each shape"),
    )), "every step looks for shapes of bodies that are near each other; default: where more than 64 pairs may touch"),
))
# fmt: on
