"""Records between processes: the network layer as the transport of an exchange from all to all."""
