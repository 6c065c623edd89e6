"""Resources for tests: LakeTables with every field, and with only what is needed; others whole."""

EVERYTHING = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata:
  name: flights
  namespace: lake
  labels: {team: air}
  annotations: {tideline.dev/paused: "true"}
spec:
  storeRef: minio
  location: s3://lake/flights
  format: Hudi
  type: MERGE_ON_READ
  recordKey: [carrier, flight, origin, scheduled_departure]
  partitionBy: [month]
  ordering: [updated_at]
  index: {type: BUCKET, buckets: 16}
  indexes: [column_stats, partition_stats, bloom_filters]
  uniqueness: Partition
  keyGenerator: {hiveStyle: true, urlEncode: true}
  schema:
  - {name: carrier, type: string, nullable: false}
  - {name: flight, type: int}
  - {name: origin, type: string}
  - {name: scheduled_departure, type: timestamp, description: as sold}
  - {name: month, type: string}
  - {name: updated_at, type: timestamp}
  - {name: fares, type: "map<string,decimal(10,2)>"}
  timezone: America/Los_Angeles
  publish: [Iceberg]
  sync:
    - hive: {uri: "thrift://metastore:9083", database: lake, name: people}
    - glue: {region: eu-central-1, database: lake, name: people}
  catalog:
    type: rest
    uri: https://catalog.example/api
    table: travel.flights
    credentials: {secretName: catalog}
  properties: {hoodie.parquet.max.file.size: "1048576"}
  ingest:
  - name: landing
    source:
      format: csv
      path: s3://lake/landing/flights/
      options: {sep: ";", nullValue: ""}
      movedFrom: s3://lake/landing/old/
      taken: Move
      movedTo: s3://lake/ingested/flights/
      namesAscend: true
      fullLookEvery: 30m
    operation: upsert
    transform: "select * from source where origin is not null"
    deleteWhen: status = 'cancelled'
    trigger: {cron: "*/5 * * * *"}
    onBadFile: Fail
    onBadRow: Quarantine
    maxBadRows: 20
    renamedFrom: arrivals
    maxFilesPerCommit: 7
  services:
    mode: Auto
    compaction: {trigger: {strategy: NUM_COMMITS, deltaCommits: 5}}
    clustering: {enabled: true, sortBy: [carrier], everyCommits: 8}
    cleaning: {policy: KEEP_LATEST_COMMITS, retain: 10}
    archiving: {minCommits: 20, maxCommits: 30}
    maintenanceWindow: "* 0-6 * * *"
  savepoints: [{name: before-migration}]
  restoreTo: null
  rerun: {compaction: 3, landing: 1}
  suspend: false
  fenced: false
  deletionPolicy: Delete
  resources:
    driver: {cpu: 500m, memory: 1Gi}
    executor: {cpu: 500m, memory: 2Gi, min: 0, max: 4}
  podTemplate: {spec: {nodeSelector: {disk: fast}}}
"""

MINIMAL = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: people}
spec:
  location: table
  recordKey: [id]
  ingest:
  - name: landing
    source: {format: parquet, path: landing}
"""

ICEBERG = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: orders, namespace: lake}
spec:
  format: Iceberg
  storeRef: minio
  location: s3://lake/orders
  formatVersion: 3
  services:
    mode: Auto
    rewriteDataFiles:
      strategy: Sort
      sortBy: [region, amount desc nulls last]
      targetFileSize: 256Mi
      minInputFiles: 4
      filter: day >= '2026-01-01'
      partialProgress: {enabled: true, maxCommits: 4}
      options: {delete-file-threshold: "2"}
    rewritePositionDeletes: {options: {min-input-files: "3"}}
    rewriteManifests: {minManifests: 10}
    expireSnapshots: {olderThan: 7d, retainLast: 3}
    removeOrphanFiles: {mode: Auto, olderThan: 4d, every: 1d}
    quietFor: 30m
    maintenanceWindow: "* 0-6 * * *"
  rerun: {rewriteDataFiles: 2}
  resources:
    driver: {memory: 1Gi}
"""

ICEBERG_MINIMAL = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: orders}
spec:
  format: Iceberg
  location: table
"""

LAKE_CATALOG = """
apiVersion: tideline.dev/v1alpha1
kind: LakeCatalog
metadata: {name: lake, namespace: lake}
spec:
  catalog:
    type: rest
    name: lake
    uri: https://catalog.example/api
    warehouse: s3://lake/
    credentials: {secretName: catalog-token}
  storeRef: minio
  include: ["sales.*", "stock.level?"]
  exclude: ["*.tmp_*"]
  every: 10m
  services:
    rewriteDataFiles: {strategy: Sort, sortBy: [day]}
    expireSnapshots: {olderThan: 7d}
    quietFor: 20m
  suspend: false
  engine: {small: Spark}
  resources: {driver: {memory: 2Gi}}
  podTemplate: {spec: {nodeSelector: {disk: fast}}}
"""

LAKE_STORE = """
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {name: minio, namespace: lake}
spec:
  endpoint: http://127.0.0.1:9
  region: eu-central-1
  createBuckets: true
  pathStyle: false
  credentials: {secretName: keys}
  webIdentity:
    roleArn: arn:aws:iam::123456789012:role/lake
    audience: sts.example
    stsEndpoint: http://127.0.0.1:9
  tls: {caSecretName: authorities}
  clientCertificate: {secretName: shown}
  sse: aws:kms
  sseKmsKeyId: arn:aws:kms:eu-central-1:123456789012:key/lake
  sseBucketKey: true
  requesterPays: true
  checksumAlgorithm: SHA256
  eventLogs: s3://lake/event-logs
  engine: {warm: {idle: 1m, lifetime: 1h, maxWorkers: 1, maxMemory: 4Gi, maxBytes: 64Mi}}
"""

ICEBERG_CATALOG = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: orders}
spec:
  format: Iceberg
  catalog:
    type: rest
    name: lake
    uri: https://catalog.example/api
    warehouse: s3://lake/
    table: sales.orders
    credentials: {secretName: catalog-token}
"""
