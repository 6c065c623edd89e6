"""The proxy through which requests to the endpoints of others leave a process."""
