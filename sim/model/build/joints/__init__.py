"""Joints as they are collected: their frames, the rows that hold, drive, stop and slow them, what is redundant."""
