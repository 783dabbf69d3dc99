"""Materials with a memory: internal variables, how they evolve, and the branches that give them to any constraint."""
