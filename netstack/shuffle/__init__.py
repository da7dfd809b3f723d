"""Records between processes: the network layer as transport of an all-to-all exchange."""
