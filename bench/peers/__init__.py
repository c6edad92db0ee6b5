"""The same robots and algorithms in Pinocchio and MuJoCo, from C or C++ and from Python: `python
bench/peers`.
"""

from peers.servers import Server, peer_servers

__all__ = ["Server", "peer_servers"]
