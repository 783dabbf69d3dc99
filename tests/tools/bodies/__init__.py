"""Trees and linkages of rigid bodies, their energies and systems by hand."""
