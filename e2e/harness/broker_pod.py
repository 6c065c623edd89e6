"""A broker of Kafka in the cluster, which pods reach with a user and TLS.

1. Its jars come from Maven's repository, as in other tests, and are a folder of the node; Java is
   that of the engine's image.
2. Pods use the name of its Service, behind TLS, and sign in with SCRAM. The tests reach it by the
   node's address, and anyone may.
3. What it stores is its pod's, so that a container that is killed continues where it was.
"""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from e2e.harness.cluster import Cluster, Manifest
from e2e.harness.installation import IMAGES
from tideline.testing.kafka_broker import CLUSTER_ID, build, make_certificate
from tideline.testing.kafka_topics import KafkaTopics

NAMESPACE = "brokers"
USER = "reader"
SERVICE = f"broker.{NAMESPACE}.svc.cluster.local"
ADDRESS = f"{SERVICE}:9093"
"""As pods reach it."""
_OUTSIDE_PORT = 9094
_NODE_PORT = 31094
_LABELS = {"app": "broker"}
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9095
listeners=INSIDE://127.0.0.1:9092,CONTROL://127.0.0.1:9095,CLIENTS://:9093,TESTS://:{outside}
advertised.listeners=INSIDE://127.0.0.1:9092,CLIENTS://{service}:9093,TESTS://{node}:{port}
listener.security.protocol.map=INSIDE:PLAINTEXT,CONTROL:PLAINTEXT,CLIENTS:SASL_SSL,TESTS:PLAINTEXT
controller.listener.names=CONTROL
inter.broker.listener.name=INSIDE
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.clients.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.clients.ssl.keystore.type=PEM
listener.name.clients.ssl.keystore.location=/settings/server.pem
log.dirs=/data/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
"""
_SCRIPT = f"""\
java="$JAVA_HOME/bin/java -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp /jars/*"
set -f
settings=/settings/server.properties
$java kafka.tools.StorageTool format --ignore-formatted -t {CLUSTER_ID} -c $settings
exec $java kafka.Kafka $settings
"""


class BrokerPod(KafkaTopics):
    """One broker for all tests; `variables` are what a Secret needs to sign in."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        (node,) = cluster.list("Node")
        addresses = {item["type"]: item["address"] for item in node["status"]["addresses"]}
        self._node = addresses["InternalIP"]
        super().__init__(f"{self._node}:{_NODE_PORT}")
        self._password = secrets.token_urlsafe(16)
        self._authority = ""

    @property
    def variables(self) -> dict[str, str]:
        return {
            "KAFKA_USERNAME": USER,
            "KAFKA_PASSWORD": self._password,
            "KAFKA_CA": self._authority,
        }

    def start(self) -> None:
        """Run it in place of one that an earlier run left, and wait until it takes its user."""
        self._cluster.load_image(IMAGES["tideline-engine"])
        self._cluster.delete("Pod", "broker", NAMESPACE, gracePeriodSeconds=0)
        self._cluster.wait_gone("Pod", "broker", NAMESPACE, timeout_s=60)
        with tempfile.TemporaryDirectory() as folder:
            self._cluster.apply_all(self._manifests(Path(folder), build()))
        self.wait_until_ready()
        self.add_user(USER, self._password)

    def stop(self) -> None:
        self._cluster.delete("Pod", "broker", NAMESPACE, gracePeriodSeconds=0)

    def kill(self) -> None:
        """SIGKILL; the kubelet starts it again."""
        pod = self._cluster.get("Pod", "broker", NAMESPACE)
        assert pod is not None
        self._cluster.kill_containers(pod)

    def wait_until_ready(self) -> None:
        waited = ("--for=condition=Ready", "pod/broker", "--timeout=120s")
        self._cluster.kubectl("wait", "-n", NAMESPACE, *waited)

    def _manifests(self, folder: Path, jars: Path) -> tuple[Manifest, ...]:
        certificate, key = folder / "ca.pem", folder / "key.pem"
        make_certificate("broker", certificate, key, server=f"DNS:{SERVICE}")
        self._authority = certificate.read_text()
        settings = _SETTINGS.format(
            service=SERVICE, node=self._node, outside=_OUTSIDE_PORT, port=_NODE_PORT
        )
        files = {
            "server.properties": settings,
            "server.pem": key.read_text() + certificate.read_text(),
        }
        named = {"name": "broker", "namespace": NAMESPACE}
        ports = [
            {"name": "clients", "port": 9093},
            {"name": "tests", "port": _OUTSIDE_PORT, "nodePort": _NODE_PORT},
        ]
        service = {"selector": _LABELS, "type": "NodePort", "ports": ports}
        return (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": files},
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**named, "labels": _LABELS},
                "spec": _pod_spec(jars),
            },
            {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": service},
        )


def _pod_spec(jars: Path) -> Manifest:
    container = {
        "name": "broker",
        "image": IMAGES["tideline-engine"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-ec", _SCRIPT],
        "env": [{"name": "LOG_DIR", "value": "/data"}],
        "readinessProbe": {"tcpSocket": {"port": 9093}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "512Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "jars", "mountPath": "/jars", "readOnly": True},
            {"name": "settings", "mountPath": "/settings", "readOnly": True},
        ],
    }
    return {
        "automountServiceAccountToken": False,
        "containers": [container],
        "securityContext": {"fsGroup": 185, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "jars", "hostPath": {"path": str(jars), "type": "Directory"}},
            {"name": "settings", "secret": {"secretName": "broker"}},
        ],
    }
