"""What the command can do: a file for each verb, with its arguments, its help and what it does."""
