"""Objects of points as they are collected: particles, chains, cloths, solids, and what their materials make of them."""
