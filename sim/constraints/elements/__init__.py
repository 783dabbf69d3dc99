"""Elements that bend, because their strain varies inside: its mean by a material law, its variation in modes.

The energy of an element is a sum of squares of mutually orthogonal parts of its strain: the mean, which follows from
the mean deformation gradient F as in a tetrahedron, and modes that vary linearly.  Each part is a constraint of its
own, so that projecting one hardly disturbs the others.
"""
