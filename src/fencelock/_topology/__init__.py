"""The rules of each topology: one server, a Cluster, replicas, a quorum."""
