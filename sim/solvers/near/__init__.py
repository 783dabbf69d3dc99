"""Contacts of bodies that are near each other: found, filled and kept in each step."""
