#!/usr/bin/env bash
# fetch_openvino.sh [FOLDER]: OpenVINO's libraries in FOLDER (build/openvino), for
# static graphs on its devices; prints the folder. They come from the wheel that
# is pinned here; of Python, only pip is needed, and none of it is installed.
# Fetches nothing when they are there. Exits 0 when they are, 3 when they cannot
# be had here (no pip, no network, another processor), 1 when something is wrong.
set -euo pipefail

version=2026.4.1
library=libopenvino_c.so.2641
sha256=2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf

if (($# > 1)) || [[ ${1-} == -* ]]; then
  sed -n 's/^# //; 2,6p' "$0" >&2
  exit 2
fi
folder=${1-$(dirname "$0")/../build/openvino}
mkdir -p "$(dirname "$folder")"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")

cannot() {
  echo "fetch_openvino: OpenVINO $version is not there, and $1" >&2
  exit 3
}

if [[ -f $folder/$library ]]; then
  echo "$folder"
  exit 0
fi
if [[ -e $folder ]]; then
  echo "fetch_openvino: $folder is there, but not with OpenVINO $version:" \
    "remove it, or name another folder" >&2
  exit 1
fi
[[ $(uname -sm) == 'Linux x86_64' ]] ||
  cannot "what is pinned is for Linux on x86-64"
python3 -m pip --version >/dev/null 2>&1 ||
  cannot 'it is fetched by pip (package python3-pip), which is not there'

# Beside its target, so that what appears there is whole.
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The same wheel whatever the version of Python is.
if ! python3 -m pip --disable-pip-version-check --retries 1 --timeout 20 \
  download --quiet --no-deps --only-binary=:all: --implementation cp \
  --python-version 3.11 --abi cp311 --platform manylinux_2_28_x86_64 \
  --dest "$work" "openvino==$version" >"$work/log" 2>&1; then
  tail -n 3 "$work/log" >&2
  cannot 'pip does not get it: is the network reachable?'
fi
wheel=$(echo "$work"/openvino-*.whl)
if ! echo "$sha256  $wheel" | sha256sum --check --status; then
  echo "fetch_openvino: $(basename "$wheel") is not the one that is pinned:" \
    "its SHA-256 is another" >&2
  exit 1
fi

# A wheel is a zip file.
python3 - "$wheel" "$work/libs" <<'END'
import pathlib
import shutil
import sys
import zipfile

folder = pathlib.Path(sys.argv[2])
folder.mkdir()
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for member in wheel.infolist():
        if member.filename.startswith('openvino/libs/lib'):
            name = pathlib.PurePosixPath(member.filename).name
            with wheel.open(member) as source:
                with open(folder / name, 'wb') as target:
                    shutil.copyfileobj(source, target)
END
mv "$work/libs" "$folder"
echo "$folder"
