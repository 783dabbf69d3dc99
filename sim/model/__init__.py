"""Model and state: a builder collects objects, shapes and attachments; `finalize` makes a model of them."""

from .builder import ModelBuilder as ModelBuilder
from .checks import Each as Each
from .constraint_set import ConstraintSet as ConstraintSet
from .control import Contacts as Contacts
from .control import Control as Control
from .errors import ModelError as ModelError
from .errors import UnknownPathError as UnknownPathError
from .fields import MODEL_FIELDS as MODEL_FIELDS
from .fields import STATE_FIELDS as STATE_FIELDS
from .fields import Field as Field
from .groups import Attachment as Attachment
from .groups import Group as Group
from .groups import Plane as Plane
from .groups import Shape as Shape
from .groups import Sphere as Sphere
from .materials import Materials as Materials
from .model import Model as Model
from .state import State as State
