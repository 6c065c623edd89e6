"""Reading tenants' tables: in this process, or in processes of their own without the API token.

- reading tenants' tables in processes of their own: `reader`, `reader_processes`, `supervisor`
- processes that read tenants' tables: calls, deadlines, tables that are set aside: `reader`,
  `reader_processes`, `supervisor`, `child`, `set_aside`
- what a reading process gives up: `confinement`, `landlock`, `starting`
- what goes between these processes: `calls`, `codec`, `frames`
"""
