"""Looking for what is wrong: races between threads, numbers that are not finite."""
