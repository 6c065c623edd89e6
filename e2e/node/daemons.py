"""The daemons of a node, each with its command line, in the order in which they start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.node.node_folder import SERVICE_NETWORK, NodeFolder

_ETCD = "http://127.0.0.1:2379"


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon; `needs_api` when it exits without an API server."""

    name: str
    command: tuple[str, ...]
    needs_api: bool = True


def daemons(folder: NodeFolder, kubernetes: Path, coredns: Path) -> tuple[Daemon, ...]:
    """What runs on the node, of the programs in these places."""
    return (
        _etcd(folder, kubernetes),
        Daemon(
            "containerd",
            ("containerd", "--config", f"{folder.path}/config/containerd.toml"),
            needs_api=False,
        ),
        _api_server(folder, kubernetes),
        _controller_manager(folder, kubernetes),
        Daemon(
            "kube-scheduler",
            (
                f"{kubernetes}/kube-scheduler",
                f"--kubeconfig={folder.certificates}/scheduler.conf",
                "--leader-elect=false",
            ),
        ),
        Daemon(
            "kubelet",
            (
                f"{kubernetes}/kubelet",
                f"--config={folder.path}/config/kubelet.yaml",
                f"--kubeconfig={folder.certificates}/node.conf",
                f"--root-dir={folder.path}/kubelet",
                f"--hostname-override={folder.node_name}",
                f"--node-ip={folder.node_address}",
            ),
        ),
        Daemon(
            "kube-proxy",
            (f"{kubernetes}/kube-proxy", f"--config={folder.path}/config/proxy.yaml"),
        ),
        Daemon("coredns", (str(coredns), "-conf", f"{folder.path}/config/Corefile")),
    )


def _etcd(folder: NodeFolder, kubernetes: Path) -> Daemon:
    command = (
        f"{kubernetes}/etcd",
        f"--data-dir={folder.path}/etcd",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        # Its data is deleted with the cluster.
        "--unsafe-no-fsync",
    )
    return Daemon("etcd", command, needs_api=False)


def _api_server(folder: NodeFolder, kubernetes: Path) -> Daemon:
    pki = folder.certificates
    command = (
        f"{kubernetes}/kube-apiserver",
        f"--etcd-servers={_ETCD}",
        f"--advertise-address={folder.node_address}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        # `kubectl logs` would look the node's name up otherwise.
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/tokens.pub",
        f"--service-account-signing-key-file={pki}/tokens.key",
        f"--audit-policy-file={folder.path}/config/audit.yaml",
        f"--audit-log-path={folder.audit_log}",
    )
    return Daemon("kube-apiserver", command, needs_api=False)


def _controller_manager(folder: NodeFolder, kubernetes: Path) -> Daemon:
    pki = folder.certificates
    command = (
        f"{kubernetes}/kube-controller-manager",
        f"--kubeconfig={pki}/controller-manager.conf",
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/tokens.key",
        "--use-service-account-credentials=true",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--leader-elect=false",
    )
    return Daemon("kube-controller-manager", command)
