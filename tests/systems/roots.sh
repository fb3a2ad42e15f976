# Sourced by tests/systems/run and tests/systems/packages: copies of this tree in roots, and commands that run there.

# This working tree, with uncommitted changes, in the root. Earlier build results stay; a file that differs is new
# there, whatever its time here, so that its objects are built again.
copy_tree() {  # copy_tree FOLDER
  local fresh=$1.fresh file
  rm -rf "$fresh"
  mkdir -p "$1" "$fresh"
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    tar --null -T - -c | tar -x --touch -C "$fresh"
  python3 tests/systems/keep_times.py "$1" "$fresh"
  find "$1" -mindepth 1 -maxdepth 1 ! -name 'build*' -exec rm -rf {} +
  find "$fresh" -mindepth 1 -maxdepth 1 -exec mv -t "$1" {} +
  rmdir "$fresh"
}

# inside [--net] ROOT COMMAND...: mounts and processes of its own, which end with it, and with --net a network of its
# own, loopback alone. pivot_root, not chroot: a process in a chroot may not make user namespaces.
inside() {
  local own=(--mount --pid --fork --kill-child)
  [[ $1 != --net ]] || { own+=(--net) && shift; }
  unshare "${own[@]}" bash -c '
    ip link set lo up
    set -e
    root=$1
    shift
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    mkdir -p "$root/run/before"
    cd "$root"
    pivot_root . run/before
    umount -l /run/before
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C "$@"
  ' systems "$@"
}

# root_of NAME ROOT LOG: makes the root, where it is not there yet. False: its packages cannot be had.
root_of() {
  if ! bash tests/systems/make_root "$1" "$2" >"$3" 2>&1; then
    echo "$1: SKIPPED, its packages cannot be had: $(grep -v '^I:' "$3" | tail -n 1)"
    return 1
  fi
}
