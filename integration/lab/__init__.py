"""The lab: a page on this machine on which a user watches a job run, and changes it meanwhile.

`live_job` runs a job piece by piece, `lab` one or two of them at the pace of the user, `channels` shows their
channels, `controls` defines the possible changes, `observed_flink` shows a running Flink beside them,
`messages` are those between lab and page, `server` serves all of it; `page` is the page itself.
"""
