"""Kubernetes, etcd, CoreDNS and Helm, compiled from their Go modules into the cache.

Kubernetes and etcd are built from one module of ours (`kubernetes/go.mod`), whose go.sum pins every
dependency: `k8s.io/kubernetes` cannot be installed by name because it replaces its staging modules.
CoreDNS is built from its module the same way, with the plugins that a cluster needs. Helm is
installed by name and verified by the checksum database, and so is kube-router.

A program appears under its name only when it is finished, and what was compiled stays in Go's own
cache, so that an interrupted build continues where it stopped. kube-apiserver and etcd come first:
tests that need an API server and nothing else wait for these two.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.build.versions import (
    ACTIONLINT,
    COREDNS,
    COSIGN,
    CRANE,
    HELM,
    KUBE_ROUTER,
    KUBERNETES,
    OPERATOR_VERIFY,
    REGISTRY,
    SYFT,
    kubernetes_folder,
    tools_folder,
)
from tideline.cache_directory import cache_directory
from tideline.testing.go_toolchain import go_command, publish, static_build_environment

HERE = Path(__file__).parent

API_SERVER_PROGRAMS = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "etcd": "go.etcd.io/etcd/server/v3",
}
CLUSTER_PROGRAMS = {
    **API_SERVER_PROGRAMS,
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
}
RELEASE_TOOLS = {
    "crane": (CRANE, "github.com/google/go-containerregistry/cmd/crane", ""),
    "cosign": (COSIGN, "github.com/sigstore/cosign/v2/cmd/cosign", ""),
    "syft": (SYFT, "github.com/anchore/syft/cmd/syft", "-X main.version={version}"),
    "registry": (REGISTRY, "github.com/distribution/distribution/v3/cmd/registry", ""),
    "operator-verify": (
        OPERATOR_VERIFY,
        "github.com/operator-framework/api/cmd/operator-verify",
        "",
    ),
}
"""By program: its version, its package, and the linker's flags that tell it the version."""


def build_api_server() -> None:
    """kube-apiserver, etcd and kubectl: enough for tests of the API alone."""
    _build_of_kubernetes((*API_SERVER_PROGRAMS, "kubectl"))


def build_cluster() -> None:
    """Everything that a node runs."""
    _build_of_kubernetes(CLUSTER_PROGRAMS)
    build_coredns()


def build_coredns() -> Path:
    arguments = ["-C", str(HERE / "coredns"), "build", "."]
    return _versioned("coredns", COREDNS, arguments, flags="")


def build_helm() -> Path:
    flags = "-X helm.sh/helm/v3/internal/version.version=v{version}"
    return _installed("helm", HELM, "helm.sh/helm/v3/cmd/helm", flags)


def build_kube_router() -> Path:
    """What enforces NetworkPolicies where a test wants it."""
    package = "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
    return _installed("kube-router", KUBE_ROUTER, package)


def build_release_tools() -> None:
    """What `make release` needs beside Helm, and a registry to try its files on."""
    for name, (version, package, flags) in RELEASE_TOOLS.items():
        _installed(name, version, package, flags)


def build_actionlint() -> Path:
    """What checks the workflows of hosted CI."""
    return _installed("actionlint", ACTIONLINT, "github.com/rhysd/actionlint/cmd/actionlint")


def build_pause() -> Path:
    """The program that keeps a pod's namespaces."""
    target = kubernetes_folder() / "pause"
    source = HERE / "pause" / "main.go"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        _build(target, ["build", str(source)], flags="")
    return target


def _build_of_kubernetes(names: Iterable[str]) -> None:
    """Build the missing programs together: while one is linked, others are compiled."""
    missing = [name for name in names if not (kubernetes_folder() / name).exists()]
    if not missing:
        return
    major, minor, _ = KUBERNETES.split(".")
    version = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    # etcd has no such variables, and the linker ignores them.
    flags = " ".join(f"-X k8s.io/component-base/version.{key}={version[key]}" for key in version)
    packages = [CLUSTER_PROGRAMS[name] for name in missing]
    with _timed(", ".join(missing)), tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        command = [go_command(), "-C", str(HERE / "kubernetes"), "build"]
        command += ["-ldflags", f"-s -w {flags}", "-o", f"{folder}/"]
        subprocess.run([*command, *packages], check=True, env=_environment(folder))
        for name, package in zip(missing, packages, strict=True):
            publish(Path(folder, _program_of(package)), kubernetes_folder() / name)


def _program_of(package: str) -> str:
    """Go's name for the program of a package: its last part that is not a version."""
    *_, before, last = package.split("/")
    return before if re.fullmatch(r"v\d+", last) else last


def _installed(name: str, version: str, package: str, flags: str = "") -> Path:
    """A program of a published module; `{version}` stands for its version in the flags."""
    target = ["install", f"{package}@v{version}"]
    return _versioned(name, version, target, flags=flags.format(version=version))


def _versioned(name: str, version: str, arguments: list[str], *, flags: str) -> Path:
    """A program in a version, and the plain name as a link to it."""
    target = tools_folder() / f"{name}-{version}"
    if not target.exists():
        _build(target, arguments, flags=flags)
    link = tools_folder() / name
    if not link.is_symlink() or link.readlink() != Path(target.name):
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
    return target


def _build(target: Path, arguments: list[str], *, flags: str) -> None:
    with _timed(target.name), tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        *context, verb, package = arguments
        command = [go_command(), *context, verb, "-ldflags", f"-s -w {flags}"]
        if verb == "build":
            command += ["-o", f"{folder}/program"]
        subprocess.run([*command, package], check=True, env=_environment(folder))
        publish(next(path for path in Path(folder).iterdir() if path.is_file()), target)


@contextmanager
def _timed(what: str) -> Iterator[None]:
    started_s = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - started_s:.0f} s", flush=True)


def _environment(folder: str) -> Mapping[str, str]:
    return {**static_build_environment(), "GOBIN": folder, "GOWORK": "off"}
