"""Model and state: a builder collects objects, shapes and attachments; `finalize` makes a model of them."""

from sim.model.build.builder import ModelBuilder as ModelBuilder
from sim.model.build.checks import Each as Each
from sim.model.constraint_set import ConstraintSet as ConstraintSet
from sim.model.control import Contacts as Contacts
from sim.model.control import Control as Control
from sim.model.errors import ModelError as ModelError
from sim.model.errors import UnknownPathError as UnknownPathError
from sim.model.fields import MODEL_FIELDS as MODEL_FIELDS
from sim.model.fields import STATE_FIELDS as STATE_FIELDS
from sim.model.fields import Field as Field
from sim.model.groups import Attachment as Attachment
from sim.model.groups import BodyGroup as BodyGroup
from sim.model.groups import CollisionShape as CollisionShape
from sim.model.groups import Group as Group
from sim.model.groups import Joint as Joint
from sim.model.kinematics import eval_fk as eval_fk
from sim.model.kinematics import eval_ik as eval_ik
from sim.model.materials import Materials as Materials
from sim.model.model import Model as Model
from sim.model.state import State as State
from sim.model.visuals import Visual as Visual
