"""Table services: each plans, schedules and executes one kind of work on a table.

- which services there are: `registry`, `iceberg.services.registry`
- what a service is: settings, due, plan, schedule, execute: `service`,
  `iceberg.services.service`, `service.py`, `hudi.services.cleaning.service`
- services that move rows: what they have in common: `row_service`, `planned_run`
- why a service is due: facts for its trigger, answers: `due_facts`, `stored_facts`,
  `decide.observed_facts`, `services.explanation`, `iceberg.services.due_facts`,
  `iceberg.services.snapshot_files`
- planning, scheduling, running a service of a table: `runs`, `context`
- what runs after a commit: `scheduler`
- the transaction around a service: `service_transaction`
"""
