"""Scene files: read, checked, and addressed by dotted paths."""

from sim.scene.load import load_scene as load_scene
from sim.scene.scene import Scene as Scene
from sim.scene.schema.keys.materials import MaterialSpec as MaterialSpec
from sim.scene.schema.keys.materials import ParameterSpec as ParameterSpec
from sim.schema.errors import Diagnostic as Diagnostic
from sim.schema.errors import SceneError as SceneError

Problem = Diagnostic
"""The name that it had in version 0.1."""
