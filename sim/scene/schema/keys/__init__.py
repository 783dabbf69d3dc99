"""THE schema of scene files: one line a key, a file for each part of a scene.

A line says: name, kind (with SI unit and allowed interval), meaning, default (`REQUIRED`, or absent where none is
given), whether the number may be a parameter, which material value of the model it sets, whether an experiment may set
it. Loader, checks, building, JSON Schema and docs/reference/scene.md follow from it.
"""
