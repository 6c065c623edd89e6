"""What `spec.podTemplate` of a table may set, and why each part may be set.

The pods run in the table's namespace, and an editor of LakeTables may create pods there. But
the operator creates these, not the user: what a cluster refuses to users and not to its operators
must not come about through a table. So a template can make pods that meet the restricted Pod
Security Standard, whether the namespace enforces it or not, and no others. The operator's own
template, in the chart, belongs to the cluster's administrator and is not limited.

Variables, images and commands are not limited: the program in such a pod is the namespace's, with
rights of the namespace. What the operation needs is laid over them in any case (driver_job.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline_operator.resources.shape import (
    Flag,
    Free,
    Items,
    Members,
    Named,
    Refused,
    Shape,
    Text,
    Whole,
)

RESERVED_DOMAINS = ("tideline.dev", "kubernetes.io", "k8s.io")
"""Names of labels and annotations that controllers act on."""
_STAYS = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_CONTAINERS_MAX, _VARIABLES_MAX = 8, 200

_PROGRAM = "The namespace runs its own programs in its pods."
_SCHEDULING = "Where pods run is up to the scheduler, within what the cluster allows."
_STRICTER = "Only what the restricted Pod Security Standard allows."
_OWN_OBJECTS = "Objects of the namespace."
_SIZES = "Within the namespace's quota."
_NODE = "a pod of a table has no part of its node"

_SECCOMP = Members(
    {
        "type": (Text(choices=("RuntimeDefault", "Localhost")), _STRICTER),
        "localhostProfile": (Text(), "A profile that the cluster's administrator has installed."),
    },
    required=("type",),
)
_USER = Whole(minimum=1, is_removable=True)
_GROUP = Whole(minimum=0, is_removable=True)
_WEAKER = "the restricted Pod Security Standard does not allow it"

_POD_SECURITY = Members(
    {
        "runAsUser": (_USER, "Not root. null leaves it to the cluster."),
        "runAsGroup": (_GROUP, "A group gives no rights on the node. null leaves it open."),
        "fsGroup": (_GROUP, "Files of volumes. null leaves it open."),
        "fsGroupChangePolicy": (Text(choices=("OnRootMismatch", "Always")), "Files of volumes."),
        "supplementalGroups": (Items(Whole(), 32), "Files of volumes."),
        "runAsNonRoot": (Flag(only=True), _STRICTER),
        "seccompProfile": (_SECCOMP, _STRICTER),
    },
    refused={
        "sysctls": Refused("array", _WEAKER),
        "seLinuxOptions": Refused("object", _WEAKER),
        "appArmorProfile": Refused("object", _WEAKER),
    },
)

_CONTAINER_SECURITY = Members(
    {
        "runAsUser": (_USER, "Not root."),
        "runAsGroup": (_GROUP, "A group gives no rights on the node."),
        "runAsNonRoot": (Flag(only=True), _STRICTER),
        "readOnlyRootFilesystem": (Flag(), "The file system of the container alone."),
        "allowPrivilegeEscalation": (Flag(only=False), _STRICTER),
        "privileged": (Flag(only=False), _STRICTER),
        "capabilities": (
            Members(
                {"drop": (Items(Text(choices=("ALL",)), 1, items_min=1), _STRICTER)},
                refused={"add": Refused("array", _WEAKER)},
                required=("drop",),
            ),
            _STRICTER,
        ),
        "seccompProfile": (_SECCOMP, _STRICTER),
    },
    refused={
        "procMount": Refused("string", _WEAKER),
        "seLinuxOptions": Refused("object", _WEAKER),
        "appArmorProfile": Refused("object", _WEAKER),
    },
)

_VARIABLE = Members(
    {
        "name": (Text(), _PROGRAM),
        "value": (Text(32_768), _PROGRAM),
        "valueFrom": (Free(), _OWN_OBJECTS),
    },
    required=("name",),
)
_MOUNT = Members(
    {
        "name": (Text(63), "A volume of the template."),
        "mountPath": (Text(1024), "A place in the container."),
        "subPath": (Text(1024), "A place in the volume, which Kubernetes keeps inside it."),
        "readOnly": (Flag(), "Less."),
    },
    refused={
        "mountPropagation": Refused("string", "what is mounted stays in its container"),
        "subPathExpr": Refused("string", "give subPath"),
    },
    required=("name", "mountPath"),
)
_PORT = Members(
    {
        "name": (Text(63), "A port of the pod."),
        "containerPort": (Whole(minimum=1), "A port of the pod."),
        "protocol": (Text(choices=("TCP", "UDP", "SCTP")), "A port of the pod."),
    },
    refused={
        "hostPort": Refused("integer", _NODE),
        "hostIP": Refused("string", _NODE),
    },
    required=("containerPort",),
)
_SIZE = Named(items_max=16, are_quantities=True)
_RESOURCES = Members({"requests": (_SIZE, _SIZES), "limits": (_SIZE, _SIZES)})
_PROBED = "the node's kubelet would send it, to any host that it names"

_IN_A_CONTAINER: Mapping[str, tuple[Shape, str]] = {
    "name": (Text(63), "Tideline's container is called engine."),
    "image": (Text(1024), _PROGRAM),
    "imagePullPolicy": (Text(choices=("Always", "IfNotPresent", "Never")), _PROGRAM),
    "command": (Items(Text(32_768), 64), _PROGRAM),
    "args": (Items(Text(32_768), 64), _PROGRAM),
    "workingDir": (Text(1024), _PROGRAM),
    "env": (Items(_VARIABLE, _VARIABLES_MAX), _PROGRAM),
    "envFrom": (Items(Free(), 32), _OWN_OBJECTS),
    "ports": (Items(_PORT, 32), "Ports of the pod."),
    "resources": (_RESOURCES, _SIZES),
    "volumeMounts": (Items(_MOUNT, 64), "Volumes of the template."),
    "securityContext": (_CONTAINER_SECURITY, _STRICTER),
    "terminationMessagePath": (Text(1024), "Of containers besides Tideline's."),
    "terminationMessagePolicy": (
        Text(choices=("File", "FallbackToLogsOnError")),
        "Of containers besides Tideline's.",
    ),
}
_NOT_IN_A_CONTAINER = {
    "livenessProbe": Refused("object", _PROBED),
    "readinessProbe": Refused("object", _PROBED),
    "startupProbe": Refused("object", _PROBED),
    "lifecycle": Refused("object", _PROBED),
    "volumeDevices": Refused("array", _NODE),
}
_CONTAINER = Members(_IN_A_CONTAINER, refused=_NOT_IN_A_CONTAINER, required=("name",))
_INIT_CONTAINER = Members(
    {
        **_IN_A_CONTAINER,
        "restartPolicy": (Text(choices=("Always",)), "Makes it a sidecar."),
    },
    refused=_NOT_IN_A_CONTAINER,
    required=("name",),
)

_VOLUME_KINDS = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
"""Those of the restricted Pod Security Standard."""
_VOLUME = Members(
    {
        "name": (Text(63), "What mounts refer to."),
        **{kind: (Free(), _STRICTER) for kind in _VOLUME_KINDS},
    },
    refused={"hostPath": Refused("object", _NODE), "nfs": Refused("object", _WEAKER)},
    required=("name",),
    one_of=_VOLUME_KINDS,
)

POD_TEMPLATE = Members(
    {
        "metadata": (
            Members(
                {
                    "labels": (
                        Named(domains=RESERVED_DOMAINS),
                        "For people, and for policies of the cluster.",
                    ),
                    "annotations": (
                        Named(domains=RESERVED_DOMAINS, excepted=(_STAYS,)),
                        "For people, and for what a namespace's pods may ask for.",
                    ),
                }
            ),
            "Labels and annotations; null removes one.",
        ),
        "spec": (
            Members(
                {
                    "nodeSelector": (Named(), _SCHEDULING),
                    "tolerations": (Items(Free(), 64), _SCHEDULING),
                    "affinity": (Free(), _SCHEDULING),
                    "topologySpreadConstraints": (Items(Free(), 16), _SCHEDULING),
                    "schedulerName": (Text(), _SCHEDULING),
                    "priorityClassName": (
                        Text(unlike={"system-": "these are for the cluster's own pods"}),
                        _SCHEDULING,
                    ),
                    "runtimeClassName": (Text(), "A class that the administrator has made."),
                    "imagePullSecrets": (
                        Items(Members({"name": (Text(), _OWN_OBJECTS)}, required=("name",)), 16),
                        _OWN_OBJECTS,
                    ),
                    "serviceAccountName": (
                        Text(),
                        "An account of the namespace, whose rights its pods have anyway.",
                    ),
                    "automountServiceAccountToken": (Flag(), "The same."),
                    "enableServiceLinks": (Flag(), "Variables about the namespace's Services."),
                    "terminationGracePeriodSeconds": (
                        Whole(),
                        "Time for a driver to undo its write.",
                    ),
                    "dnsPolicy": (
                        Text(choices=("ClusterFirst", "Default", "None")),
                        "Names within the pod.",
                    ),
                    "dnsConfig": (Free(), "Names within the pod."),
                    "hostAliases": (Items(Free(), 64), "Names within the pod."),
                    "securityContext": (_POD_SECURITY, _STRICTER),
                    "containers": (Items(_CONTAINER, _CONTAINERS_MAX), _PROGRAM),
                    "initContainers": (Items(_INIT_CONTAINER, _CONTAINERS_MAX), _PROGRAM),
                    "volumes": (Items(_VOLUME, 64), _STRICTER),
                },
                refused={
                    "hostNetwork": Refused("boolean", _NODE),
                    "hostPID": Refused("boolean", _NODE),
                    "hostIPC": Refused("boolean", _NODE),
                    "hostUsers": Refused("boolean", "the administrator's engine.podTemplate does"),
                    "nodeName": Refused("string", "the scheduler chooses among allowed nodes"),
                    "shareProcessNamespace": Refused(
                        "boolean", "a sidecar must not see the engine's credentials"
                    ),
                    "serviceAccount": Refused("string", "give serviceAccountName"),
                    "restartPolicy": Refused("string", "Tideline sets it"),
                    "activeDeadlineSeconds": Refused("integer", "Tideline sets it"),
                    "ephemeralContainers": Refused("array", "no template has them"),
                    "resourceClaims": Refused("array", "devices are the administrator's to give"),
                },
            ),
            "What the restricted Pod Security Standard allows.",
        ),
    }
)
