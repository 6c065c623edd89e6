"""The `tideline` command line: one module per command, loaded only when it is called.

- stopping an operation: `execute_operation`, `stop_signal`
- `plan` and `execute` of tables of either format: `execute`, `serviced_table`
- commands, their help: `main`, `command`
- dry runs, questions before what deletes: `consent`, `service_consent`, `local.preview`
- output of commands, progress: `output`, `progress`
"""
