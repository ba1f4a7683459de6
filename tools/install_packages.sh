#!/usr/bin/env bash
# install_packages.sh GROUP...: installs what is missing of the groups named in
# packages.txt. Needs neither root nor network when nothing is missing.
set -euo pipefail
list="$(dirname "$0")/packages.txt"

wanted=()
for group in "$@"; do
  names=$(sed -n "/^\[$group\]\$/,/^\[/p" "$list" | grep -v '^[[#]' || true)
  if [[ -z $names ]]; then
    echo "install_packages: no group [$group] in $list" >&2
    exit 2
  fi
  # shellcheck disable=SC2206
  wanted+=($names)
done

missing=()
for name in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$name")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "These packages are missing, and this is not a Debian system:" \
    "${missing[*]}" >&2
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "Packages are missing. Run this as root, then try again:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends" \
      "${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1
}
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; }
then
  cat "$log" >&2
  echo "Could not install: ${missing[*]}. Is the network reachable, and is" \
    "this Debian 12?" >&2
  exit 1
fi
