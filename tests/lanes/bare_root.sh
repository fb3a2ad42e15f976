# Sourced by lanes that need a bare Debian root, or Debian's archive.

debian_archive() {  # this machine's source of Debian
  awk '/^URIs:/ { print $2; exit } /^deb / { for (i = 2; i <= NF; i++) if ($i ~ /^(http|https|file):/) { print $i; exit } }' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null
}

# make_bare_root TAR ROOT: unpacks TAR into ROOT, an empty directory; makes TAR first if it is missing, from this
# machine's own Debian sources. This machine's apt settings (a proxy, for example) apply.
make_bare_root() {
  local tar=$1 root=$2 file sources=/etc/apt/sources.list.d/debian.sources
  [[ -f $sources ]] || sources=/etc/apt/sources.list
  if [[ ! -s $tar ]]; then
    echo "making a bare Debian root"
    mmdebstrap --quiet --variant=minbase --mode=root --format=tar "" "$tar.part" "$sources"
    mv "$tar.part" "$tar"
  fi
  tar -C "$root" -xf "$tar"
  cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qi 'Acquire' "$file" 2>/dev/null; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
  done
}

# enter_bare_root ROOT COMMAND...: as root, in a mount and a process namespace, which end with it: so do its mounts and processes.
# pivot_root, not chroot: a process in a chroot may not make user namespaces.
enter_bare_root() {
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    root=$1
    shift
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    mkdir -p "$root/run/before"
    cd "$root"
    pivot_root . run/before
    umount -l /run/before
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb HOME=/root "$@"
  ' bare "$@"
}

# remove_bare_root ROOT: its mounts are gone with the mount namespace that held them; deleting would pass through a
# leftover, so check first.
remove_bare_root() {
  if grep -q " $1[/ ]" /proc/self/mounts; then
    echo "something is still mounted in $1: left as it is" >&2
  else
    rm -rf --one-file-system "$1"
  fi
}

# In a bare root, as a user who cannot become root: the words in front of a command.
as_ordinary_user=(setpriv --reuid=user --regid=user --init-groups --no-new-privs --bounding-set=-all --inh-caps=-all env HOME=/home/user)
