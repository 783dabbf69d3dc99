"""What a URDF says of a robot: its links and joints in SI units, and everything in it that a scene cannot have.

Format: the XML specification of URDF in the documentation of ROS (`urdf/XML`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sim.files import FileError, number, quoted
from sim.geometry import UNPLACED, Placed
from sim.model import ModelError
from sim.model.build.bodies import inertia_matrix, inertia_rows
from sim.scene.urdf.elements import XmlElement
from sim.scene.urdf.forms import TABLES, UrdfForm, mesh_file
from sim.scene.urdf.places import turn_of_rpy
from sim.schema.errors import Diagnostic, Mark, word_hint
from sim.schema.kinds import LARGEST_NUMBER

DROPPABLE = {
    "collision": "shapes of links: nothing can collide with them",
    "visual": "pictures of links: they are drawn as their shapes, or as bodies of equal inertia",
    "transmission": "gears and motors: joints turn as if there were none",
    "wide-limits": "limits of angles that are a turn apart or more: the angle is known up to whole turns",
    "extension": "what other programs add (gazebo, ros2_control, ...)",
}
"""What a scene cannot have and a user may leave out, knowing it: name -> what is lost."""

MOVES = "revolute", "continuous", "prismatic"
_IN_LINK = "inertial", "visual", "collision"
_IN_JOINT = "origin", "parent", "child", "axis", "calibration", "dynamics", "limit", "mimic", "safety_controller"


@dataclass(frozen=True, eq=False)
class UrdfLink:
    """A link; mass 0: none is given.  com (3,) [m], inertia (6,) xx yy zz xy xz yz [kg m^2] in the axes of the link;
    forms: how it looks, what it collides with."""

    name: str
    mark: Mark
    mass: float = 0.0
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros(6))
    forms: Sequence[UrdfForm] = ()


@dataclass(frozen=True, eq=False)
class UrdfJoint:
    """A joint: its place in the frame of the parent, its axis (3,) there of length 1, and what acts along it.

    limits: low and high, None for one that turns for ever; effort: 0 is none.
    """

    name: str
    mark: Mark
    kind: str
    parent: str
    child: str
    origin: Placed = UNPLACED
    axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    limits: tuple[float, float] | None = None
    effort: float = 0.0
    velocity: float = 0.0
    friction: float = 0.0
    damping: float = 0.0

    @property
    def unit(self) -> str:
        """Of its coordinate."""
        return "m" if self.kind == "prismatic" else "rad"


@dataclass
class RobotReader:
    """Reads a robot, and gathers `problems` and `notes` (what is left out without harm) on the way.

    drop: what is left out at the user's word, names of `DROPPABLE`.  folder: of the URDF; packages: see `mesh_file`.
    """

    drop: Collection[str] = ()
    folder: Path = Path()
    packages: Sequence[Path] = ()
    problems: list[Diagnostic] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    links: dict[str, UrdfLink] = field(default_factory=dict)
    joints: dict[str, UrdfJoint] = field(default_factory=dict)
    _dropped: dict[str, list[int]] = field(default_factory=dict)  # what -> lines

    def read(self, root: XmlElement) -> None:
        """Links and joints of the element `robot`."""
        if root.tag != "robot":
            self.problem(root.mark, "", f"expected a `robot`, got {quoted(root.tag)}", "give a URDF file")
            return
        xacro = [e for e in _tree(root) if e.tag.startswith("xacro:") or any("${" in v for v in e.attributes.values())]
        if xacro:
            hint = "expand it first: `xacro robot.urdf.xacro > robot.urdf`"
            self.problem(xacro[0].mark, "", f"macros of xacro (in {len(xacro)} places)", hint)
            return
        counts: dict[str, int] = {}
        for child in root.children:
            if child.tag == "link":
                self._link(child)
            elif child.tag == "joint":
                self._joint(child)
            elif child.tag == "transmission":
                self.drop_or_refuse("transmission", child.mark, "", f"the transmission {_named(child)}")
            elif child.tag != "material":
                self._extension(child, "")
        for element in _tree(root):
            if element.tag in ("calibration", "safety_controller"):
                counts[element.tag] = counts.get(element.tag, 0) + 1
        for what, lines in self._dropped.items():
            self.notes.append(f"left out: {what} ({'lines' if lines[1:] else 'line'} {', '.join(map(str, lines))})")
        for tag, count in counts.items():
            self.notes.append(f"left out: {tag} ({count})")
        fast = [f"{quoted(j.name)} {j.velocity:g} {j.unit}/s" for j in self.joints.values() if j.velocity]
        if fast:
            self.notes.append(f"left out: velocity limits, which joints may exceed: {', '.join(fast)}")

    # ------------------------------------------------------------------------------------------------- problems
    def problem(self, mark: Mark, path: str, what: str, hint: str = "") -> None:
        """Notes a problem."""
        self.problems.append(Diagnostic(mark, path, what, hint))

    def drop_or_refuse(self, kind: str, mark: Mark, path: str, what: str) -> None:
        """Notes something that a scene cannot have: as left out, where the user said so, as a problem otherwise."""
        if kind in self.drop:
            self._dropped.setdefault(what, []).append(mark.line)
        else:
            hint = f"`--drop {kind}` leaves it out ({DROPPABLE[kind]})"
            self.problem(mark, path, f"{what}: a scene cannot have it", hint)

    def _extension(self, element: XmlElement, path: str) -> None:
        self.drop_or_refuse("extension", element.mark, path, f"the element {quoted(element.tag)}")

    # ---------------------------------------------------------------------------------------------------- links
    def _link(self, element: XmlElement) -> None:
        name = self._name(element, "link", self.links)
        path = f"link {quoted(name)}"
        forms: list[UrdfForm] = []
        for child in element.children:
            if child.tag in TABLES and child.tag in self.drop:
                self._dropped.setdefault(f"a `{child.tag}`", []).append(child.mark.line)
            elif child.tag in TABLES:
                form = self._form(child, path)
                forms += [] if form is None else [form]
            elif child.tag not in _IN_LINK:
                self._extension(child, path)
        inertial = self._one(element, "inertial", path)
        made = UrdfLink(name, element.mark) if inertial is None else self._massive(inertial, name, element)
        self.links[name] = replace(made, forms=forms)

    def _form(self, element: XmlElement, path: str) -> UrdfForm | None:
        """A `visual` or `collision`; None, and a problem, where a scene cannot have it."""
        tag, leave = element.tag, f"or leave it out: `--drop {element.tag}`"
        geometry = self._one(element, "geometry", path)
        kinds = [] if geometry is None else geometry.children
        if len(kinds) != 1 or kinds[0].tag not in ("box", "sphere", "cylinder", "mesh"):
            found = ", ".join(f"`{kind.tag}`" for kind in kinds) or "no geometry"
            what = f"a `{tag}` with {found}: a scene has `box`, `sphere`, `cylinder` and `mesh`"
            self.problem(element.mark, path, what, f"give one of these, {leave}")
            return None
        (at,) = kinds
        name, place = element.attributes.get("name", "") or tag, self._origin(element, path)
        if at.tag == "mesh":
            file, what, hint = mesh_file(at.attributes.get("filename", ""), self.folder, self.packages)
            scale = self._vector(at, "scale", path, np.ones(3))
            if file is None:
                self.problem(at.mark, path, f"a `{tag}`: {what}", f"{hint}, {leave}" if hint else leave)
            elif not (scale == scale[0]).all() or scale[0] <= 0.0:
                what = f"a `{tag}`: a mesh whose axes have the scales {', '.join(f'{s:g}' for s in scale)}"
                self.problem(at.mark, path, what, f"scale or mirror it in its file, {leave}")
            else:
                unit = f", unit: {scale[0]:.15g}" if scale[0] != 1.0 else ""
                return UrdfForm(TABLES[tag], name, "mesh", unit, place, file)
            return None
        if at.tag == "box":
            numbers = 0.5 * self._vector(at, "size", path, np.full(3, np.nan))
            size = f"half: [{', '.join(f'{n:.15g}' for n in numbers)}]"
            if "size" not in at.attributes:
                self.problem(at.mark, path, "no `size` in `box`", "give it")
        else:
            numbers = np.array(
                [self._number(at, key, path) for key in ("radius", "length")[: 1 + (at.tag != "sphere")]]
            )
            size = f"radius: {numbers[0]:.15g}"
            size += f", half_height: {0.5 * numbers[1]:.15g}" if at.tag == "cylinder" else ""
        if np.isfinite(numbers).all() and (numbers <= 0.0).any():
            self.problem(at.mark, path, f"a `{tag}` whose size is not positive", f"give its size in m, {leave}")
        return UrdfForm(TABLES[tag], name, at.tag, size, place)

    def _massive(self, inertial: XmlElement, name: str, link: XmlElement) -> UrdfLink:
        path = f"link {quoted(name)}"
        place = self._origin(inertial, path)
        mass_at, at = self._one(inertial, "mass", path), self._one(inertial, "inertia", path)
        mass = self._number(mass_at, "value", path) if mass_at is not None else 0.0
        keys = "ixx", "iyy", "izz", "ixy", "ixz", "iyz"
        row = np.array([self._number(at, key, path, 0.0 if key[1] != key[2] else None) for key in keys]
                       if at is not None else np.zeros(6))  # fmt: skip
        missing = [tag for tag, found in (("mass", mass_at), ("inertia", at)) if found is None]
        if missing:
            self.problem(inertial.mark, path, f"no `{missing[0]}` in `inertial`", "give both, or no `inertial`")
        elif mass < 0.0 and mass_at is not None:
            self.problem(mass_at.mark, path, f"a mass of {mass:g} kg", "a mass is positive; without one, no `inertial`")
        elif mass > 0.0 and np.isfinite(row).all() and at is not None:
            try:
                inertia_rows("the inertia", row, 1)
            except ModelError as error:
                self.problem(at.mark, path, error.what, error.hint)
        turned = place.rotation @ inertia_matrix(row) @ place.rotation.T if place.turned else inertia_matrix(row)
        return UrdfLink(name, link.mark, mass, place.p, turned[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])

    # --------------------------------------------------------------------------------------------------- joints
    def _joint(self, element: XmlElement) -> None:
        name = self._name(element, "joint", self.joints)
        path = f"joint {quoted(name)}"
        kind = element.attributes.get("type", "")
        if kind in ("planar", "floating"):
            self.problem(element.mark, path, f"a `{kind}` joint: a scene cannot have it", "use other joints")
        elif kind not in (*MOVES, "fixed"):
            what = f"the type {quoted(kind)}" if kind else "no `type`"
            self.problem(element.mark, path, what, word_hint(kind, (*MOVES, "fixed")))
        for entry in element.children:
            if entry.tag not in _IN_JOINT:
                self._extension(entry, path)
            if entry.tag == "mimic":
                of = quoted(entry.attributes.get("joint", ""))
                hint = "remove it: the joint then moves by itself"
                self.problem(entry.mark, path, f"it mimics {of}: a scene cannot have that", hint)
        parent, child = (self._end(element, end, path) for end in ("parent", "child"))
        origin, axis_at = self._origin(element, path), self._one(element, "axis", path)
        axis = np.array([1.0, 0.0, 0.0])
        if axis_at is not None and kind != "fixed":
            axis = self._vector(axis_at, "xyz", path, axis)
            if not axis.any():
                self.problem(axis_at.mark, path, "an axis of length 0", "give it a direction")
                axis = np.array([1.0, 0.0, 0.0])
        axis = axis / np.abs(axis).max()  # squares of tiny numbers are zero
        joint = UrdfJoint(name, element.mark, kind, parent, child, origin, axis / np.linalg.norm(axis))
        self.joints[name] = self._along(joint, element, path) if kind in MOVES else joint

    def _end(self, joint: XmlElement, end: str, path: str) -> str:
        """The link at one end of a joint."""
        at = self._one(joint, end, path)
        link = "" if at is None else at.attributes.get("link", "")
        if not link:
            self.problem((at or joint).mark, path, f"no `{end}` link", f'write `<{end} link="..."/>`')
        return link

    def _along(self, joint: UrdfJoint, element: XmlElement, path: str) -> UrdfJoint:
        """The joint with its limits and what slows it down."""
        at, slows = self._one(element, "limit", path), self._one(element, "dynamics", path)
        limits = None
        if joint.kind != "continuous":
            if at is None:
                self.problem(element.mark, path, f"a `{joint.kind}` joint without `limit`", "give one, or `continuous`")
            else:
                limits = self._number(at, "lower", path, 0.0), self._number(at, "upper", path, 0.0)
        if at is not None and limits is not None:
            low, high = limits
            if low > high:
                self.problem(at.mark, path, f"the lower limit {low:g} is above the upper {high:g}", "exchange them")
            elif joint.kind == "revolute" and high - low >= 2 * np.pi:
                self.drop_or_refuse("wide-limits", at.mark, path, f"limits {low:g} to {high:g} of an angle")
                limits = None
        effort, velocity = (self._not_negative(at, key, path) for key in ("effort", "velocity"))
        damping, friction = (self._not_negative(slows, key, path) for key in ("damping", "friction"))
        if at is not None and effort == 0.0:
            self.notes.append(f"{path}: an effort of 0 is taken as none given")
        if damping * velocity > effort > 0.0:
            self.notes.append(f"{path}: its effort limits its damping too, which is more at its largest velocity")
        return replace(joint, limits=limits, effort=effort, velocity=velocity, damping=damping, friction=friction)

    # --------------------------------------------------------------------------------------------------- values
    def _name(self, element: XmlElement, what: str, taken: Collection[str]) -> str:
        name = element.attributes.get("name", "")
        if not name:
            self.problem(element.mark, "", f"a {what} without a name", 'write `name="..."`')
        elif name in taken:
            self.problem(element.mark, f"{what} {quoted(name)}", f"a second {what} of this name", "rename one of them")
        return name

    def _one(self, element: XmlElement, tag: str, path: str) -> XmlElement | None:
        found = list(element.all(tag))
        if len(found) > 1:
            self.problem(found[1].mark, path, f"a second `{tag}`", "keep one of them")
        return found[0] if found else None

    def _origin(self, element: XmlElement, path: str) -> Placed:
        at = self._one(element, "origin", path)
        if at is None:
            return UNPLACED
        return Placed(
            self._vector(at, "xyz", path, np.zeros(3)), turn_of_rpy(self._vector(at, "rpy", path, np.zeros(3)))
        )

    def _vector(self, element: XmlElement, key: str, path: str, default: np.ndarray) -> np.ndarray:
        words = element.attributes.get(key)
        if words is None:
            return default
        if len(words.split()) != 3:
            self.problem(element.mark, path, f"`{key}` is {quoted(words)}", "give three numbers")
            return default
        found = np.array([self._parsed(word, element, f"`{key}`", path) for word in words.split()])
        return found if np.isfinite(found).all() else default

    def _number(self, element: XmlElement, key: str, path: str, default: float | None = None) -> float:
        word = element.attributes.get(key)
        if word is not None:
            return self._parsed(word.strip(), element, f"`{key}`", path)
        if default is None:
            self.problem(element.mark, path, f"no `{key}` in `{element.tag}`", "give it")
            return np.nan
        return default

    def _not_negative(self, element: XmlElement | None, key: str, path: str) -> float:
        value = 0.0 if element is None else self._number(element, key, path, 0.0)
        if element is not None and value < 0.0:
            self.problem(element.mark, path, f"a negative {key} of {value:g}", "check its sign")
        return value

    def _parsed(self, word: str, element: XmlElement, what: str, path: str) -> float:
        """A number; NaN where it is none, which is no further problem."""
        try:
            value = number(word)
        except FileError as error:
            self.problem(element.mark, path, f"{what}: {error.what}", error.hint)
            return np.nan
        if value and not 1.0 / LARGEST_NUMBER <= abs(value) <= LARGEST_NUMBER:
            self.problem(element.mark, path, f"{what}: {quoted(word)} is no number that a scene takes", "check it")
            return np.nan
        return value


def _tree(element: XmlElement) -> Iterator[XmlElement]:
    yield element
    for child in element.children:
        yield from _tree(child)


def _named(element: XmlElement) -> str:
    return quoted(element.attributes.get("name", ""))
