"""The kernel language: types, front end, IR, analyses, derivatives."""
