"""From what a builder has collected to a model: checked, merged, coloured, allocated."""
