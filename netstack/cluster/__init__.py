"""One job that runs in several processes, one for each task manager, in real time over TCP."""
