"""How mechanisms hang together: the motion of clusters, what closes their loops, ranks, and independent velocities."""
