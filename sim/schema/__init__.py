"""What a scene file is written in: YAML whose values know their places, quantities with units, and kinds of values.

The vocabulary only: which keys there are is said by those who read them, each in a `SchemaLine`.
"""
