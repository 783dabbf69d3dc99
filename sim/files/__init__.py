"""Reading files that others wrote: bytes, text, numbers and arrays, checked before anything is allocated or believed.

Every reader of the project (meshes, recordings, scenes, run folders) goes through here.  What cannot be used is a `FileError`
with the place in the file; readers turn it into the error of their own kind, with the file's name.  Nothing here guesses: a
number is a number as the formats write it, a size that is announced has to be what the file holds.
"""

from .archive import Archive as Archive
from .archive import read_npy as read_npy
from .content import LARGEST_FILE as LARGEST_FILE
from .content import LARGEST_TEXT as LARGEST_TEXT
from .content import near as near
from .content import read_bytes as read_bytes
from .content import read_text as read_text
from .content import text_of as text_of
from .errors import FileError as FileError
from .errors import quoted as quoted
from .errors import within as within
from .numbers import LARGEST_WHOLE as LARGEST_WHOLE
from .numbers import number as number
from .numbers import numbers as numbers
from .numbers import whole as whole
from .numbers import wholes as wholes
