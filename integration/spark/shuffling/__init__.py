"""A shuffle of the rows of a DataFrame through the network layer."""
