"""What rigid bodies are made of until `finalize`: masses, rods, joints."""
