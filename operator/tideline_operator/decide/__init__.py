"""What to do next with a table, from what was seen of it: values in, values out.

- a LakeTable's settings of a service: `service_settings`, `iceberg_settings`
- what to do next, as operations: `planner`, `planned_operation`
- whether a found table may be worked on: `adoption`, `observe.known_capabilities`
- which worker an operation gets, its Job, what became of it: `worker_assignment`,
  `controller.warm_workers`, `controller.worker_places`, `launch.worker_job`,
  `launch.worker_outcome`
- which service is due, its settings: `service_triggers`, `service_settings`
"""
