"""What an operation is: the file that a Job reads, and its result."""
