# Sourced by lanes that install our packages on a bare system and try them there.

# lay_package_scripts ROOT DEBS: the packages, and scripts that run in ROOT in this order: given/install, given/prepare, given/try
# (the commands of debian/tests, as root and as an ordinary user), given/remove (nothing of them may be left).
lay_package_scripts() {
  local root=$1 debs=$2 needed
  local tests=utils/packaging/debian/tests
  mkdir -p "$root/given"
  cp "$debs"/*.deb "$root/given"
  cp -r "$tests" "$root/given/tests"
  # What debian/tests/control names for its tests, our own packages apart.
  needed=$(sed -n 's/^Depends: //p' "$tests/control" | tr ',' '\n' | tr -d ' ' | grep -v bitmaprdma | sort -u | paste -sd' ')
  echo "names='$(sed -n 's/^Tests: //p' "$tests/control" | paste -sd' ')'" >"$root/given/names"
  cat >"$root/given/install" <<'END'
apt-get update -q
apt-get install -q -y --no-install-recommends /given/bitmaprdma_*.deb /given/libbitmaprdma1_*.deb
if find /etc/systemd/system -name '*brdma*' | grep .; then exit 1; fi  # not enabled
dpkg --verify bitmaprdma libbitmaprdma1
id user >/dev/null 2>&1 || useradd --create-home user
END
  cat >"$root/given/prepare" <<END
apt-get install -q -y --no-install-recommends $needed libibverbs-dev /given/*.deb xz-utils
END
  cat >"$root/given/try" <<'END'
source /given/names
for user in root user; do
  echo "-- as $user"
  as() { su "$user" -s /bin/bash -c "$*"; }
  as 'brdma run -- ibv_devinfo && brdma system show && brdma env' >/tmp/seen
  grep -q 'hca_id:.*brdma_lo' /tmp/seen && grep -q PORT_ACTIVE /tmp/seen
  for name in $names; do
    echo "-- $name"
    as "cd / && /given/tests/$name"
  done
  as 'brdma system shutdown'
done
END
  cat >"$root/given/remove" <<'END'
apt-get purge -q -y --autoremove bitmaprdma libbitmaprdma1 libbitmaprdma-dev
if find /usr /etc /lib -name 'brdma*' -o -name '*bitmaprdma*' | grep .; then exit 1; fi
END
  chmod -R a+rX "$root/given"
}
