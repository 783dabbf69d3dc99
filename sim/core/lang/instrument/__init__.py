"""Programs that watch other programs."""
