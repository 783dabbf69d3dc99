"""Many searches at once: from several starts, or of several variants of a scene, on any executor."""
