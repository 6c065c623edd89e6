"""Spark configuration that users may give for drivers and executors. Pure.

What pods are and where they run follows from other fields, and what Tideline relies on is not for
users: such names are refused. Of what makes pods only names that are listed are taken, each because
it changes how many executors are asked for, or when. All other names concern programs in the pods,
code that they load included: that is the namespace's own, as their image is.
"""

from __future__ import annotations

import re

_ELSEWHERE = {
    "spark.driver.memory": "spec.resources.driver.memory",
    "spark.driver.cores": "spec.resources.driver.cpu",
    "spark.executor.memory": "spec.resources.executor.memory",
    "spark.executor.memoryOverhead": "spec.resources.executor.memory",
    "spark.executor.pyspark.memory": "spec.resources.executor.memory",
    "spark.memory.offHeap.size": "spec.resources.executor.memory",
    "spark.executor.cores": "spec.resources.executor.cpu",
    "spark.executor.instances": "spec.resources.executor.max",
    "spark.dynamicAllocation.minExecutors": "spec.resources.executor.min",
    "spark.dynamicAllocation.initialExecutors": "spec.resources.executor.min",
    "spark.dynamicAllocation.maxExecutors": "spec.resources.executor.max",
    "spark.eventLog.enabled": "spec.eventLogs of the LakeStore",
    "spark.eventLog.dir": "spec.eventLogs of the LakeStore",
    "spark.eventLog.rolling.enabled": "spec.eventLogs of the LakeStore",
    "spark.kubernetes.container.image": "spec.podTemplate",
    "spark.kubernetes.executor.podTemplateFile": "spec.podTemplate",
}
_OWN = re.compile(
    r"spark\.(master|app\.name|submit\.deployMode|driver\.(host|bindAddress|port|blockManager\.port)"
    r"|blockManager\.port|port\.maxRetries|dynamicAllocation\.(enabled|shuffleTracking\.enabled"
    r"|executorIdleTimeout)|driver\.extra(ClassPath|JavaOptions)|jars|ui\..*"
    r"|python\.daemon\.module|sql\.(session\.timeZone|ansi\.enabled|catalogImplementation"
    r"|warehouse\.dir|parquet\.outputTimestampType|execution\.arrow\.pyspark\.enabled)"
    r"|decommission\.enabled|storage\.decommission\..*"
    r"|kubernetes\.(namespace|driver\..*|authenticate\..*|container\.image\.pullPolicy"
    r"|executor\.(podTemplate.*|podNamePrefix|disableConfigMap|request\.cores|limit\.cores)"
    r"|memoryOverheadFactor))"
)
KUBERNETES_PREFIX = "spark.kubernetes."
KUBERNETES_CONF = {
    "spark.kubernetes.allocation.batch.size": "how many executors are asked for at once",
    "spark.kubernetes.allocation.batch.delay": "how soon more are asked for",
    "spark.kubernetes.allocation.executor.timeout": "how long one may take to begin",
    "spark.kubernetes.allocation.maxPendingPods": "how many may wait",
    "spark.kubernetes.allocation.maximum": "how many there are in all",
    "spark.kubernetes.executor.checkAllContainers": "when an executor counts as ended",
    "spark.kubernetes.executor.deleteOnTermination": "whether ended ones stay for a look",
    "spark.kubernetes.executor.eventProcessingInterval": "how often they are looked at",
    "spark.kubernetes.executor.missingPodDetectDelta": "when one counts as gone",
    "spark.kubernetes.local.dirs.tmpfs": "whether spilled data stays in the pod's memory",
}
"""The names of that prefix that are taken, and what each changes."""
NOT_OF_PODS = "pods are described by spec.podTemplate and spec.resources"
_SECRET = re.compile(
    r"secret|password|passphrase|token|(access|account|private|encryption|sas)[._-]?key|[.]sas[.]"
    r"|credential",
    re.IGNORECASE,
)


def refused_conf(name: str) -> str | None:
    """Why a name cannot be given, and what to give instead; None where it can."""
    if not re.fullmatch(r"spark\.[A-Za-z0-9_.\-]+", name):
        return "names of Spark's configuration begin with spark."
    if name in _ELSEWHERE:
        return f"give {_ELSEWHERE[name]}"
    if _OWN.fullmatch(name):
        return "Tideline sets it"
    if name.startswith(KUBERNETES_PREFIX) and name not in KUBERNETES_CONF:
        return NOT_OF_PODS
    if _SECRET.search(name):
        return "credentials belong in the Secret of the LakeStore"
    return None
