"""The veth pair between the machine and a node: the only change to the machine's own network.

The node's end is in the node's network namespace, and the pair is removed with it. There is
no route, no forwarding and no firewall rule on the machine: it reaches the node's address, which is
the API server's, and nothing behind it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from e2e.node.node_folder import NodeFolder


def connect(folder: NodeFolder, pid: int) -> None:
    """Create the pair and move one end to the namespace of process `pid`."""
    host, node = folder.host_interface, folder.node_interface
    _ip("link", "add", host, "type", "veth", "peer", "name", node)
    _ip("link", "set", node, "netns", str(pid))
    _ip("address", "add", f"{folder.host_address}/24", "dev", host)
    _ip("link", "set", host, "up")


def disconnect(folder: NodeFolder) -> None:
    """Remove the pair, if it is there."""
    for interface in (folder.host_interface, folder.node_interface):
        if Path("/sys/class/net", interface).exists():
            subprocess.run(["ip", "link", "delete", interface], capture_output=True)


def configure_node_end(folder: NodeFolder) -> None:
    """Called in the node: address, loopback, and the kernel settings that kube-proxy relies on."""
    _ip("link", "set", "lo", "up")
    _ip("address", "add", f"{folder.node_address}/24", "dev", folder.node_interface)
    _ip("link", "set", folder.node_interface, "up")
    # kube-proxy and pods need a default route, even one that leads nowhere.
    _ip("route", "add", "default", "via", folder.host_address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # A pod that calls a Service whose pod is on the same bridge.
    bridge = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridge.exists():
        bridge.write_text("1")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
