"""Reading files that others wrote: bytes, text, numbers and arrays, checked before anything is allocated or believed.

Every reader of the project (meshes, recordings, scenes, run folders) goes through here.  What cannot be used is a
`FileError` with the place in the file; readers turn it into the error of their own kind, with the file's name.  Nothing
here guesses: a number is a number as the formats write it, a size that is announced has to be what the file holds.
"""

from sim.files.archive import Archive as Archive
from sim.files.archive import read_npy as read_npy
from sim.files.content import LARGEST_FILE as LARGEST_FILE
from sim.files.content import LARGEST_TEXT as LARGEST_TEXT
from sim.files.content import near as near
from sim.files.content import read_bytes as read_bytes
from sim.files.content import read_text as read_text
from sim.files.content import text_of as text_of
from sim.files.errors import FileError as FileError
from sim.files.errors import quoted as quoted
from sim.files.errors import within as within
from sim.files.numbers import LARGEST_WHOLE as LARGEST_WHOLE
from sim.files.numbers import number as number
from sim.files.numbers import numbers as numbers
from sim.files.numbers import whole as whole
from sim.files.numbers import wholes as wholes
