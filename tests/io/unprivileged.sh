#!/usr/bin/env bash
# Runs a test program without privilege: no capabilities, a user that owns nothing. usage: unprivileged.sh PROGRAM [ARGS]
# Not root: runs it as it is. The program is copied, for the build tree may be closed to others.
set -euo pipefail
program=$1
shift
if (($(id -u) != 0)); then exec "$program" "$@"; fi
command -v setpriv >/dev/null || { echo "skipped: no setpriv (util-linux)"; exit 77; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
chmod 755 "$directory"
install -m 755 "$program" "$directory/program"
cd /
setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --no-new-privs "$directory/program" "$@"
