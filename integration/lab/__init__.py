"""The lab: a page on this machine on which one watches a job run, and changes it meanwhile.

`side` runs a job piece by piece, `lab` one or two of them by the clock of the user, `channels` and `figures`
look at what there is to see, `controls` says what may be changed, `messages` what goes to the page and what
comes back, `server` serves all that; `page` is the page itself.
"""
