"""URDF, the robot descriptions of ROS, made into scenes."""

from sim.scene.urdf.importer import Imported as Imported
from sim.scene.urdf.importer import import_urdf as import_urdf
