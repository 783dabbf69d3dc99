"""What a person is told of a result: the rows of result.json, notes, what to use it for, the page."""
