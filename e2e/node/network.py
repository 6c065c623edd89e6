"""The veth pair between the machine and a node: the only thing that the machine's own network gets.

The node's end lives in the node's network namespace, and when that goes, so does the pair. There is
no route, no forwarding and no firewall rule on the machine: it reaches the node's address, which is
the API server's, and nothing behind it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from e2e.node.node_folder import HOST_ADDRESS, NODE_ADDRESS

HOST_INTERFACE = "tideline-host"
NODE_INTERFACE = "tideline-node"


def connect(pid: int) -> None:
    """Make the pair and hand one end to the namespace of process `pid`."""
    _ip("link", "add", HOST_INTERFACE, "type", "veth", "peer", "name", NODE_INTERFACE)
    _ip("link", "set", NODE_INTERFACE, "netns", str(pid))
    _ip("address", "add", f"{HOST_ADDRESS}/24", "dev", HOST_INTERFACE)
    _ip("link", "set", HOST_INTERFACE, "up")


def is_connected() -> bool:
    return Path("/sys/class/net", HOST_INTERFACE).exists()


def disconnect() -> None:
    """Remove the pair, if it is there."""
    for interface in (HOST_INTERFACE, NODE_INTERFACE):
        if Path("/sys/class/net", interface).exists():
            subprocess.run(["ip", "link", "delete", interface], capture_output=True)


def configure_node_end() -> None:
    """Called in the node: address, loopback, and the kernel settings that kube-proxy counts on."""
    _ip("link", "set", "lo", "up")
    _ip("address", "add", f"{NODE_ADDRESS}/24", "dev", NODE_INTERFACE)
    _ip("link", "set", NODE_INTERFACE, "up")
    # kube-proxy and pods want a default route, even one that leads nowhere.
    _ip("route", "add", "default", "via", HOST_ADDRESS)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # A pod that calls a Service whose pod is on the same bridge.
    bridge = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridge.exists():
        bridge.write_text("1")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
