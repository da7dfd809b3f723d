"""One job over several processes, one for each of its task managers, in real time over TCP."""
