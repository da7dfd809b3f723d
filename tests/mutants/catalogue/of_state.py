"""Defects of state: copy-on-write, changelog, tables, time-to-live."""

from ..mutant import Mutant

STATE = (
    Mutant(
        "no-copy-on-write",
        "netstack/state/copy_on_write.py",
        "            saved[key] = value\n            value = self._entries[key] = copy_value(value)\n",
        "            pass\n",
        "a value that is changed in place changes in the snapshot, too",
        ("tests/netstack/test_copy_on_write.py",),
    ),
    Mutant(
        "overwritten-in-the-snapshot",
        "netstack/state/copy_on_write.py",
        "        if saved is not None and key not in saved:\n"
        "            saved[key] = self._entries.get(key, _ABSENT)\n",
        "",
        "a value that is replaced is replaced in the snapshot, too",
        ("tests/netstack/test_copy_on_write.py",),
    ),
    Mutant(
        "removed-from-the-snapshot",
        "netstack/state/copy_on_write.py",
        "            self._saved.setdefault(key, value)\n",
        "            pass\n",
        "a key that is removed is missing in the snapshot, too",
        ("tests/netstack/test_copy_on_write.py",),
    ),
    Mutant(
        "log-truncated-too-far",
        "netstack/state/changelog_backend.py",
        "        self.log.truncate(sequence)\n        self._parts",
        "        self.log.truncate(self.log.end)\n        self._parts",
        "a materialisation drops changes that came after it had begun",
        ("tests/netstack/test_changelog.py",),
    ),
    Mutant(
        "unconfirmed-parts-used",
        "netstack/state/changelog_backend.py",
        "            del parts[common:]\n",
        "            pass\n",
        "a checkpoint names parts of the log that a later one may delete",
        ("tests/netstack/test_changelog.py",),
    ),
    Mutant(
        "base-deleted-early",
        "netstack/state/changelog_backend.py",
        "        unused = [base for base in self._former if not base.pending]\n",
        "        unused = list(self._former)\n",
        "the base is deleted that a pending checkpoint is about to name",
        ("tests/netstack/test_changelog.py",),
    ),
    Mutant(
        "log-not-replayed",
        "netstack/state/changelog_backend.py",
        "                keyed.replay(change)\n",
        "                pass\n",
        "a restore does not replay the changelog",
        ("tests/netstack/test_changelog.py",),
    ),
    Mutant(
        "state-of-others-restored",
        "netstack/checkpoints/assignment.py",
        "            own = [handle for handle in keyed if _has_some_of(handle, groups)]\n",
        "            own = [handle for handle in keyed if _has_some_of(handle, groups)][:1]\n",
        "at another parallelism a subtask takes over the state of one earlier subtask only",
        ("tests/netstack/test_assignment.py",),
    ),
    Mutant(
        "lists-dealt-out-short",
        "netstack/checkpoints/assignment.py",
        "    each, more = divmod(len(values), subtasks)\n",
        "    each, more = len(values) // subtasks, 0\n",
        "at another parallelism the last values of a list are lost",
        ("tests/netstack/test_assignment.py",),
    ),
    Mutant(
        "in-flight-dealt-to-the-wrong-one",
        "netstack/checkpoints/channel_assignment.py",
        "        return assign_to_operators(key_hash(records), most, now)\n",
        "        return assign_to_operators(key_hash(records), most, now)[::-1]\n",
        "at another parallelism data in flight goes to the wrong subtasks",
        ("tests/netstack/test_assignment.py",),
    ),
)
