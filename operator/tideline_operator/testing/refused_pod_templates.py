"""Pod templates and Spark settings that are refused, as in refused_specs.py."""

from __future__ import annotations

from tideline_operator.testing.refused_specs import RefusedSpec, with_spec

_SPEC, _CONTAINER = "spec.podTemplate.spec", "spec.podTemplate.spec.containers[0]"


def _pod(lines: str, field: str, words: str, server: str = "") -> RefusedSpec:
    """A template with `lines` in its spec, refused in the same words unless the server has its
    own."""
    text = with_spec(f"podTemplate: {{spec: {{{lines}}}}}")
    return RefusedSpec(text, f"{_SPEC}.{field}: {words}", f"{_SPEC}.{field}", server or words)


def _container(lines: str, field: str, words: str, server: str = "") -> RefusedSpec:
    """The same for the engine's container."""
    text = with_spec(f"podTemplate: {{spec: {{containers: [{{name: engine, {lines}}}]}}}}")
    path = f"{_CONTAINER}.{field}"
    return RefusedSpec(text, f"{path}: {words}", path, server or words)


def _metadata(lines: str, field: str, name: str) -> RefusedSpec:
    words = "names under tideline.dev and kubernetes.io and k8s.io are not for tables"
    text = with_spec(f"podTemplate: {{metadata: {{{lines}}}}}")
    path = f"spec.podTemplate.metadata.{field}"
    return RefusedSpec(text, f"{path}.{name}: {words}", path, words)


def _conf(name: str, parser: str, words: str) -> RefusedSpec:
    text = with_spec(f"engine: {{sparkConf: {{{name}: x}}}}")
    return RefusedSpec(text, parser, "spec.engine.sparkConf", words)


_NODE = "a pod of a table has no part of its node"
_WEAKER = "the restricted Pod Security Standard does not allow it"
_KUBELET = "the node's kubelet would send it, to any host that it names"
_PODS = "pods are described by spec.podTemplate and spec.resources"

RESTRICTED = with_spec(
    """
    podTemplate:
      metadata:
        labels: {team: air, example.org/cost: "7"}
        annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: null, karpenter.sh/x: "1"}
      spec:
        nodeSelector: {kubernetes.io/arch: amd64, disk: null}
        tolerations: [{key: spark, operator: Exists, tolerationSeconds: 30}]
        affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone}]
        priorityClassName: low
        imagePullSecrets: [{name: registry}]
        serviceAccountName: payroll
        automountServiceAccountToken: false
        securityContext:
          runAsUser: null
          fsGroup: 1000
          runAsNonRoot: true
          seccompProfile: {type: RuntimeDefault}
        volumes:
        - {name: tmp, emptyDir: {sizeLimit: 1Gi, medium: Memory}}
        - {name: keys, projected: {sources: [{secret: {name: keys}}]}}
        containers:
        - name: engine
          image: mirror/engine:1
          env:
          - {name: JAVA_TOOL_OPTIONS, value: "-Xmx1g"}
          - {name: TOKEN_FILE, valueFrom: {secretKeyRef: {name: keys, key: file}}}
          envFrom: [{secretRef: {name: more, optional: true}}]
          resources: {limits: {cpu: 2, example.org/gpu: "1"}}
          volumeMounts: [{name: keys, mountPath: /keys, readOnly: true, subPath: a}]
        initContainers:
        - name: logs
          image: logs:1
          restartPolicy: Always
          command: [tail]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    """
)
"""Everything that matters of what is taken."""

POD_REFUSALS = (
    _pod("hostNetwork: true", "hostNetwork", _NODE),
    _pod("hostNetwork: false", "hostNetwork", _NODE),
    _pod("hostPID: true", "hostPID", _NODE),
    _pod("hostIPC: true", "hostIPC", _NODE),
    _pod("hostUsers: true", "hostUsers", "the administrator's engine.podTemplate does"),
    _pod("nodeName: one", "nodeName", "the scheduler chooses among allowed nodes"),
    _pod(
        "shareProcessNamespace: true",
        "shareProcessNamespace",
        "a sidecar must not see the engine's credentials",
    ),
    _pod("serviceAccount: other", "serviceAccount", "give serviceAccountName"),
    _pod("restartPolicy: Always", "restartPolicy", "Tideline sets it"),
    _pod("ephemeralContainers: [{name: x}]", "ephemeralContainers", "no template has them"),
    _pod("resourceClaims: [{name: x}]", "resourceClaims", "devices are the administrator's"),
    _pod(
        "priorityClassName: system-node-critical",
        "priorityClassName",
        "these are for the cluster's own pods",
    ),
    _pod("setHostnameAsFQDN: true", "setHostnameAsFQDN", "no such field", "unknown field"),
    _pod("volumes: [{name: h, hostPath: {path: /}, emptyDir: {}}]", "volumes[0].hostPath", _NODE),
    _pod("volumes: [{name: h, nfs: {server: x}, emptyDir: {}}]", "volumes[0].nfs", _WEAKER),
    _pod("volumes: [{name: h}]", "volumes[0]", "give exactly one of configMap, csi"),
    _pod("volumes: [{emptyDir: {}}]", "volumes[0].name", "is required", "Required value"),
    _pod(
        "volumes: [{name: h, iscsi: {}, emptyDir: {}}]",
        "volumes[0].iscsi",
        "no such field",
        "unknown field",
    ),
    _pod(
        "securityContext: {runAsUser: 0}",
        "securityContext.runAsUser",
        "must be a whole number from 1",
        "should be greater than or equal to 1",
    ),
    _pod(
        "securityContext: {runAsNonRoot: false}",
        "securityContext.runAsNonRoot",
        "allowed: true",
        'supported values: "true"',
    ),
    _pod(
        "securityContext: {seccompProfile: {type: Unconfined}}",
        "securityContext.seccompProfile.type",
        "allowed: RuntimeDefault, Localhost",
        'supported values: "RuntimeDefault", "Localhost"',
    ),
    _pod("securityContext: {sysctls: [{name: a}]}", "securityContext.sysctls", _WEAKER),
    _pod(
        "securityContext: {appArmorProfile: {type: Unconfined}}",
        "securityContext.appArmorProfile",
        _WEAKER,
    ),
    _pod(
        "securityContext: {seLinuxOptions: {type: spc_t}}",
        "securityContext.seLinuxOptions",
        _WEAKER,
    ),
    _container(
        "securityContext: {privileged: true}",
        "securityContext.privileged",
        "allowed: false",
        'supported values: "false"',
    ),
    _container(
        "securityContext: {allowPrivilegeEscalation: true}",
        "securityContext.allowPrivilegeEscalation",
        "allowed: false",
        'supported values: "false"',
    ),
    _container(
        "securityContext: {capabilities: {drop: [ALL], add: [{}]}}",
        "securityContext.capabilities.add",
        _WEAKER,
    ),
    _container(
        "securityContext: {capabilities: {drop: [KILL]}}",
        "securityContext.capabilities.drop[0]",
        "allowed: ALL",
        'supported values: "ALL"',
    ),
    _container(
        "securityContext: {capabilities: {drop: []}}",
        "securityContext.capabilities.drop",
        "has 0 items; allowed: 1 to 1",
        "should have at least 1 items",
    ),
    _container("securityContext: {procMount: Unmasked}", "securityContext.procMount", _WEAKER),
    _container("ports: [{containerPort: 80, hostPort: 80}]", "ports[0].hostPort", _NODE),
    _container("ports: [{containerPort: 80, hostIP: 0.0.0.0}]", "ports[0].hostIP", _NODE),
    _container(
        "livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}", "livenessProbe", _KUBELET
    ),
    _container("readinessProbe: {tcpSocket: {port: 80}}", "readinessProbe", _KUBELET),
    _container("startupProbe: {exec: {command: [x]}}", "startupProbe", _KUBELET),
    _container(
        "lifecycle: {postStart: {httpGet: {host: 10.0.0.1, port: 80}}}", "lifecycle", _KUBELET
    ),
    _container("volumeDevices: [{name: x, devicePath: /dev/x}]", "volumeDevices", _NODE),
    _container(
        "volumeMounts: [{name: tmp, mountPath: /x, mountPropagation: Bidirectional}]",
        "volumeMounts[0].mountPropagation",
        "what is mounted stays in its container",
    ),
    _container("stdin: true", "stdin", "no such field", "unknown field"),
    _metadata("labels: {tideline.dev/worker: x}", "labels", "tideline.dev/worker"),
    _metadata(
        "labels: {batch.kubernetes.io/job-name: x}", "labels", "batch.kubernetes.io/job-name"
    ),
    _metadata(
        "annotations: {container.apparmor.security.beta.kubernetes.io/engine: unconfined}",
        "annotations",
        "container.apparmor.security.beta.kubernetes.io/engine",
    ),
    _conf(
        "spark.kubernetes.executor.volumes.hostPath.x.mount.path",
        f"spec.engine.sparkConf.spark.kubernetes.executor.volumes.hostPath.x.mount.path: "
        f"cannot be given here: {_PODS}",
        _PODS,
    ),
    _conf("spark.kubernetes.context", f"cannot be given here: {_PODS}", _PODS),
    _conf(
        "hoodie.x",
        "spec.engine.sparkConf.hoodie.x: cannot be given here: names of Spark's",
        "names of Spark's configuration begin with spark.",
    ),
    _conf(
        "spark.hadoop.fs.s3a.access.key",
        "spec.engine.sparkConf.spark.hadoop.fs.s3a.access.key: credentials belong",
        "credentials belong in a Secret",
    ),
)
