"""The configuration files of a node's daemons."""

from __future__ import annotations

import json
from typing import Any

import yaml

from e2e.node.node_folder import POD_NETWORK, NodeFolder

PAUSE_IMAGE = "localhost/pause:3"


def write_configuration(folder: NodeFolder, control_group: str, snapshotter: str) -> None:
    """Every file that `daemons` names."""
    config = folder.path / "config"
    (config / "containerd.toml").write_text(_containerd(folder, snapshotter))
    (config / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(folder, control_group)))
    (config / "proxy.yaml").write_text(yaml.safe_dump(_proxy(folder)))
    (config / "Corefile").write_text(_corefile(folder))
    (config / "audit.yaml").write_text(yaml.safe_dump(_audit_policy()))
    (folder.path / "cni" / "10-pods.conflist").write_text(json.dumps(_network(folder)))


def _containerd(folder: NodeFolder, snapshotter: str) -> str:
    path = folder.path
    return f"""\
version = 2
root = "{path}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
address = "{folder.containerd_socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{path}/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
enable_unprivileged_ports = true
# Without CAP_SYS_RESOURCE a process cannot lower this score below its own.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{path}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _kubelet(folder: NodeFolder, control_group: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": folder.node_address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder.certificates / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{control_group}",
        "clusterDNS": [folder.node_address],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{folder.containerd_socket}",
        # Images are loaded, never pulled: a garbage-collected one would not come back.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        # Kubernetes 1.35 refuses version 1 unless configured; 1.34 already knows the setting.
        "failCgroupV1": False,
        "failSwapOn": False,
        "resolvConf": "",
        "syncFrequency": "10s",
        "volumePluginDir": str(folder.path / "volume-plugins"),
    }


def _proxy(folder: NodeFolder) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(folder.certificates / "proxy.conf")},
        "clusterCIDR": POD_NETWORK,
        # The machine's own limits stay as they are.
        "conntrack": {"maxPerCore": 0, "min": 0},
        "hostnameOverride": folder.node_name,
        "mode": "iptables",
    }


def _corefile(folder: NodeFolder) -> str:
    return f"""\
.:53 {{
  bind {folder.node_address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {folder.certificates}/dns.conf kind-{folder.name}
    pods insecure
  }}
  cache 5
}}
"""


def _audit_policy() -> dict[str, Any]:
    """Record each request of a service account, once it was answered, without its content."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "omitManagedFields": True,
        "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}],
    }


def _network(folder: NodeFolder) -> dict[str, Any]:
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(folder.path / "cni-addresses"),
                    "ranges": [[{"subnet": POD_NETWORK}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
