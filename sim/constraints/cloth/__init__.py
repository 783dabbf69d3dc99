"""What cloth is made of: membranes and plates whose values do not depend on the mesh."""
