"""Table services: each plans, schedules and executes one kind of work on a table."""
