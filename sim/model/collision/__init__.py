"""Which parts of surfaces may touch: points and triangles, edges and edges, found by the structures of the language.

Detection yields integers only.  Lists are complete, or there is an error: every pair whose distance may fall below its
thickness before the next detection is on them.  Where pairs are is computed anew in every projection, so that no
derivative is lost, and a pair that is listed and open changes nothing: results do not depend on when lists were made.
"""
