"""What is made small."""
