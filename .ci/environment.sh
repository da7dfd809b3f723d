#!/bin/sh
# Makes the environment of this checkout in .venv, once: needs Python 3.11+ and Java 17+, installs what
# constraints.txt pins. What is missing is said in one line. PYTHON=... chooses the interpreter.
set -u
cd "$(dirname "$0")/.." || exit 1

venv=.venv
stamp=$venv/netstack.stamp
python_hint="'apt install python3 python3-venv' or 'brew install python@3.13'"
java_hint="'apt install openjdk-17-jre-headless' or 'brew install openjdk@17'"

fail() {
    echo "netstack: $*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# Sets $python to the first candidate that is new enough and can make environments.
find_python() {
    seen="" incomplete=""
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.13 python3.12 python3.11; fi
    for candidate in "$@"; do
        found=$(version_of "$candidate") || continue
        if ! is_new_enough "$candidate"; then
            seen="$seen, $candidate is $found"
        elif ! "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            incomplete=${incomplete:-$found}
        else
            python=$candidate
            return
        fi
    done
    [ -z "$incomplete" ] ||
        fail "Python $incomplete lacks its venv module; install it, for example 'apt install python$incomplete-venv'"
    tried=${PYTHON:+"$PYTHON does not run"}
    tried=${tried:-python3 is not on the PATH}
    [ -z "$seen" ] || tried=${seen#, }
    fail "needs Python 3.11 or newer ($tried); install it, for example $python_hint, or name one: make env PYTHON=..."
}

# Spark runs on Java, which it finds as this does: JAVA_HOME first, then the PATH.
check_java() {
    java=java where="not on the PATH"
    if [ -n "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java where="JAVA_HOME=$JAVA_HOME has none that runs"
    fi
    line=$("$java" -version 2>&1 | grep 'version "')
    version=${line#*\"} version=${version%%\"*}
    major=${version#1.} major=${major%%[!0-9]*}
    [ -n "$major" ] || fail "needs Java 17 or newer ($where); install it, for example $java_hint"
    [ "$major" -ge 17 ] || fail "needs Java 17 or newer (found $version); install it, for example $java_hint"
}

# The stamp is written last, so an interrupted installation starts again; it holds what the environment depends on.
wanted_stamp() {
    echo "$PWD"
    cksum constraints.txt pyproject.toml .ci/environment.sh
}

is_usable() {
    is_new_enough $venv/bin/python && $venv/bin/python -m pip --version >/dev/null 2>&1 || return 1
    [ ! -f $stamp ] || [ "$(head -n 1 $stamp)" = "$PWD" ] || return 1
    [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of $venv/bin/python)" ]
}

pip() {
    quiet=--quiet
    [ ! -t 1 ] || quiet=
    PIP_DISABLE_PIP_VERSION_CHECK=1 $venv/bin/python -m pip install $quiet --no-compile --no-input "$@" ||
        fail "installing into $venv failed (see above); 'make env' tries again"
}

install() {
    is_usable || find_python
    echo "netstack: installing the pinned versions into $venv (once; PySpark is by far the largest)"
    is_usable || "$python" -m venv --clear $venv || fail "cannot make $venv with $python"
    rm -f $stamp
    pip "$(grep '^setuptools==' constraints.txt)"
    pip --no-deps --no-build-isolation --use-pep517 -r constraints.txt
    pip --no-deps --no-build-isolation --editable .
    broken=$($venv/bin/python -m pip check 2>/dev/null) || fail "constraints.txt and pyproject.toml disagree: $broken"
    wanted_stamp >$stamp
}

check_java
[ -z "${PYTHON:-}" ] || find_python
is_usable && [ -f $stamp ] && [ "$(cat $stamp)" = "$(wanted_stamp)" ] || install
