"""The controller: LakeTables of a Kubernetes cluster, kept as they are declared.

- the controller: watches, queue, one turn for one table: `controller`, `reconcile`
- what became of an operation's Job: `settlement`, `launch.job_outcome`
- endpoints that do not answer, shares, threads: `endpoints`, `workers`, `storage.request_gate`
- leader election, limits: `election`, `budgets`
- deleting a table with its LakeTable: `deletion`, `reading.deleted_table`,
  `reading.table_removal`
- which table owns which place: `claims`, `locations`, `decide.addresses`
- buckets that tables use, results of a LakeStore's checks: `store_watch`
"""
