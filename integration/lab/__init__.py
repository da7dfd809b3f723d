"""The lab: a page on this machine on which a user watches a job run, and changes it meanwhile.

- `live_job` runs a job piece by piece.
- `lab` runs one or two of them at the pace of the user.
- `channels` shows their channels, and `controls` defines the possible changes.
- `observed_flink` shows a running Flink beside them.
- `messages` declares the messages between lab and page.
- `server` serves the lab; `page` is the page itself.
"""
