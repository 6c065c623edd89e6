"""A certificate authority for one cluster, its certificates and kubeconfigs, made with openssl."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.node.node_folder import NodeFolder

_DAYS = "30"


@dataclass(frozen=True, slots=True)
class _Certificate:
    name: str
    subject: str
    alternatives: tuple[str, ...] = ()


def make_certificates(folder: NodeFolder) -> None:
    """Everything in the node's `pki` folder: certificates, the tokens' keys and kubeconfigs."""
    pki = folder.certificates
    key = _key(pki, "ca")
    _openssl("req", "-x509", "-new", "-key", key, "-out", str(pki / "ca.crt"),
             "-subj", "/CN=tideline-e2e", "-days", _DAYS)  # fmt: skip
    for certificate in _certificates(folder):
        _sign(pki, certificate)
    token_key = _key(pki, "tokens")
    _openssl("pkey", "-in", token_key, "-pubout", "-out", str(pki / "tokens.pub"))
    for user in ("admin", "node", "controller-manager", "scheduler", "proxy", "dns"):
        _write_kubeconfig(folder, user)


def _certificates(folder: NodeFolder) -> tuple[_Certificate, ...]:
    service = "kubernetes.default.svc"
    names = ("kubernetes", "kubernetes.default", service, f"{service}.cluster.local", "localhost")
    api_server = (
        *(f"DNS:{name}" for name in names),
        *(f"IP:{address}" for address in ("127.0.0.1", "10.96.0.1", folder.node_address)),
    )
    return (
        _Certificate("apiserver", "/CN=kube-apiserver", api_server),
        _Certificate("kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client"),
        _Certificate("admin", "/O=system:masters/CN=kubernetes-admin"),
        _Certificate("node", f"/O=system:nodes/CN=system:node:{folder.node_name}"),
        _Certificate("controller-manager", "/CN=system:kube-controller-manager"),
        _Certificate("scheduler", "/CN=system:kube-scheduler"),
        _Certificate("proxy", "/CN=system:kube-proxy"),
        _Certificate("dns", "/O=system:masters/CN=coredns"),
    )


def _sign(pki: Path, certificate: _Certificate) -> None:
    request = pki / f"{certificate.name}.csr"
    extensions = pki / f"{certificate.name}.ext"
    lines = [
        "basicConstraints=CA:FALSE",
        "keyUsage=digitalSignature",
        "extendedKeyUsage=clientAuth,serverAuth",
    ]
    if certificate.alternatives:
        lines.append(f"subjectAltName={','.join(certificate.alternatives)}")
    extensions.write_text("\n".join(lines) + "\n")
    key = _key(pki, certificate.name)
    _openssl("req", "-new", "-key", key, "-subj", certificate.subject, "-out", str(request))
    _openssl("x509", "-req", "-in", str(request), "-CA", str(pki / "ca.crt"),
             "-CAkey", str(pki / "ca.key"), "-CAcreateserial", "-days", _DAYS,
             "-extfile", str(extensions), "-out", str(pki / f"{certificate.name}.crt"))  # fmt: skip


def _key(pki: Path, name: str) -> str:
    path = pki / f"{name}.key"
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-out", str(path))  # fmt: skip
    return str(path)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def _write_kubeconfig(folder: NodeFolder, user: str) -> None:
    """With everything in it, so that the file works wherever it is copied."""
    pki = folder.certificates
    name = f"kind-{folder.name}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": f"https://{folder.node_address}:6443",
                    "certificate-authority-data": _encoded(pki / "ca.crt"),
                },
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": _encoded(pki / f"{user}.crt"),
                    "client-key-data": _encoded(pki / f"{user}.key"),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    (pki / f"{user}.conf").write_text(yaml.safe_dump(config))


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
