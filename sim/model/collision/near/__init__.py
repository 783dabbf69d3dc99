"""Which shapes of bodies are near each other: looked for in every step, where there are many.

Detection yields integers only: pairs of shapes whose bounding boxes, around where they are as a step begins and where
they are predicted, overlap with a margin.  Lists are complete, or there is an error: as a step ends, all shapes are in
the boxes that they were found with.  How wide the margin is follows in each step from how deep shapes are predicted in
each other (`separation`).
"""
