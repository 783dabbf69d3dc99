"""Contact with solids that have no formula of their own: what closed surfaces of triangles enclose."""
