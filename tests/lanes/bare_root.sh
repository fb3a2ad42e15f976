# Sourced by lanes that need a bare Debian root, or Debian's archive.

debian_archive() {  # where this machine gets Debian from
  awk '/^URIs:/ { print $2; exit } /^deb / { for (i = 2; i <= NF; i++) if ($i ~ /^(http|https|file):/) { print $i; exit } }' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null
}

# make_bare_root TAR ROOT: unpacks TAR into ROOT, an empty directory; TAR is made first where it is not there, from this machine's own
# Debian sources. How this machine's apt goes to the archive (a proxy, say) goes along.
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
