"""The tree of a robot in a pose: where its links are, which of them are bodies, and what carries the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from sim.files import quoted
from sim.geometry import UNPLACED, Placed, quaternion_about
from sim.scene.urdf.robot import RobotReader, UrdfJoint, UrdfLink

WORLD = ""
"""What carries links that are part of the world: no link has this name."""


@dataclass
class RobotTree:
    """Links from the root on.  pose: joint -> its coordinate [rad, m], 0 where none is given.

    free: the root is not bolted to the world.  order: links, parents first; above: link -> the joint to its parent;
    placed: link -> where it is; carrier: link -> the body that it is part of, or the world; held: bodies that do not
    move.  What is wrong with the tree is a problem of the reader.
    """

    reader: RobotReader
    pose: Mapping[str, float]
    free: bool
    order: list[str] = field(default_factory=list)
    above: dict[str, UrdfJoint] = field(default_factory=dict)
    below: dict[str, list[UrdfJoint]] = field(default_factory=dict)
    placed: dict[str, Placed] = field(default_factory=dict)
    carrier: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._connect()
        if self.reader.problems:
            return
        for name in self.order:
            joint = self.above.get(name)
            self.placed[name] = self._placed(joint) if joint is not None else UNPLACED
        for name in self.order:
            self._carry(name)
        for name, body in self.carrier.items():
            link = self.links[name]
            if body != WORLD and link.mass == 0.0 and link.inertia.any():
                what = "an inertia without a mass"
                self.reader.problem(link.mark, f"link {quoted(name)}", what, "give it a mass, or no `inertial`")
        for name in self.bodies:
            joint = self.above.get(name)
            if (joint is None and not self.free) or (
                joint is not None and joint.kind == "fixed" and self._still(self.carrier[joint.parent])
            ):
                self.held.add(name)
        if not self.reader.problems and not self.bodies:
            mark = self.links[self.order[0]].mark
            self.reader.problem(mark, "", "no link of the robot has an inertia", "give `inertial` to what moves")

    @property
    def links(self) -> dict[str, UrdfLink]:
        return self.reader.links

    def parts(self) -> dict[str, list[str]]:
        """Body -> the links without a mass that are part of it."""
        parts: dict[str, list[str]] = {body: [] for body in self.bodies}
        for name, body in self.carrier.items():
            if body not in (name, WORLD):
                parts[body].append(name)
        return parts

    @property
    def bodies(self) -> list[str]:
        """Links with a mass, parents first."""
        return [name for name in self.order if self.carrier.get(name) == name]

    @property
    def joints(self) -> Iterator[tuple[UrdfJoint, str, str]]:
        """Joints between different bodies that are not both at rest, with those: parent and child."""
        for name in self.order:
            joint = self.above.get(name)
            if joint is not None:
                ends = self.carrier[joint.parent], self.carrier[name]
                if ends[0] != ends[1] and not all(map(self._still, ends)):
                    yield joint, *ends

    def _still(self, body: str) -> bool:
        return body == WORLD or body in self.held

    def _connect(self) -> None:
        """Parents before children; every link once."""
        reader = self.reader
        if not self.links:
            return
        for joint in reader.joints.values():
            path = f"joint {quoted(joint.name)}"
            for end in (joint.parent, joint.child):
                if end and end not in self.links:
                    reader.problem(joint.mark, path, f"there is no link {quoted(end)}", "name one of the links")
            if joint.child in self.above:
                first = self.above[joint.child]
                what = f"the link {quoted(joint.child)} has two parents"
                reader.problem(joint.mark, path, what, f"it hangs on the joint {quoted(first.name)} already")
                continue
            self.above[joint.child] = joint
            self.below.setdefault(joint.parent, []).append(joint)
        roots = [name for name in self.links if name not in self.above]
        for extra in roots[1:]:
            what = f"a second root: no joint has it as a child, nor the link {quoted(roots[0])}"
            reader.problem(self.links[extra].mark, f"link {quoted(extra)}", what, "join all links to one tree")
        waiting = roots[:1]
        while waiting:
            name = waiting.pop()
            self.order.append(name)
            waiting += [joint.child for joint in reversed(self.below.get(name, [])) if joint.child in self.links]
        if len(roots) < 2:
            looped = [name for name in self.links if name not in self.order]
            if looped and not reader.problems:
                what = f"its joints go round in a circle ({', '.join(map(quoted, looped))})"
                reader.problem(self.links[looped[0]].mark, f"link {quoted(looped[0])}", what, "URDF is a tree")

    def _placed(self, joint: UrdfJoint) -> Placed:
        """Where the child of a joint is."""
        value = self.pose.get(joint.name, 0.0)
        at = self.placed[joint.parent].then(joint.origin)
        if joint.kind == "prismatic":
            return at.then(Placed(value * joint.axis, UNPLACED.q))
        return at.then(Placed(np.zeros(3), quaternion_about(joint.axis, value))) if value else at

    def _carry(self, name: str) -> None:
        """What a link is part of: itself, if it has a mass; without one, what it is fixed to."""
        joint = self.above.get(name)
        if name == "world" and joint is None:
            self.carrier[name] = WORLD
        elif self.links[name].mass > 0.0:
            self.carrier[name] = name
        elif name in self.carrier:
            return
        elif joint is None and not self.free:
            self.carrier[name] = WORLD
        elif joint is not None and joint.kind == "fixed":
            self.carrier[name] = self.carrier[joint.parent]
        else:
            below = self._fixed_below(name)
            self.carrier[name] = below[-1] if below else WORLD
            for between in below:
                self.carrier[between] = below[-1]
            if not below:
                what = "a link that moves, without an inertia of its own or of a link that is fixed below it"
                self.reader.problem(self.links[name].mark, f"link {quoted(name)}", what, "give it `inertial`")

    def _fixed_below(self, name: str) -> list[str]:
        """The way down fixed joints to the first link with a mass, which ends it; empty: there is none."""
        waiting: list[list[str]] = [[name]]
        while waiting:
            way = waiting.pop()
            if self.links[way[-1]].mass > 0.0:
                return way[1:]
            fixed = [joint.child for joint in self.below.get(way[-1], []) if joint.kind == "fixed"]
            waiting += [[*way, child] for child in reversed(fixed)]
        return []
