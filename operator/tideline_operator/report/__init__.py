"""What became of it: the status of resources, and the lines that `tideline run` prints."""
