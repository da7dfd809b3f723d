#!/bin/sh
# Runs the core's tests, the storms, the references and some stored digests with the core compiled, in a copy of this
# checkout, which stays plain. Before and after compiling it measures the speed and computes some results, which have to
# be equal bit for bit. If nothing can be compiled, it prints why and ends.
set -eu
cd "$(dirname "$0")/.."

python=$PWD/.venv/bin/python
copy=$(mktemp -d "${TMPDIR:-/tmp}/netstack-compiled.XXXXXX")
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' HUP INT TERM

tar -cf - --exclude=./.git --exclude=./.venv --exclude='./.*_cache' --exclude=./build --exclude='*.so' \
    --exclude='*.egg-info' . | tar -xf - -C "$copy"
cd "$copy"
"$python" -m benches.jobs speed
"$python" -m tests.digests --exact plain
if ! "$python" setup.py --quiet build_ext --inplace --parallel 2 >compiling.log 2>&1; then
    if grep '^netstack: to be compiled it needs' compiling.log; then exit 0; fi
    tail -n 20 compiling.log
    exit 1
fi
"$python" -m benches.jobs speed
"$python" -m tests.digests --exact compiled
diff -r plain compiled
echo "netstack: the tests of the core, compiled:"
NETSTACK_TESTED=compiled "$python" -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile \
    --no-loadscope-reorder tests/integration/runs tests/storms tests/netstack tests/buffers tests/flowcontrol \
    tests/test_digests.py
