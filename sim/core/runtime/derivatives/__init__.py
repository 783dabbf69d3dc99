"""What is built on the tape and on forward mode."""
