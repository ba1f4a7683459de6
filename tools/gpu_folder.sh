#!/usr/bin/env bash
# Makes a folder to take to a machine that has an NVIDIA driver and the C library,
# and nothing of ours. See usage below.
set -euo pipefail
export LC_ALL=C
readonly MOST_BYTES=14000000
readonly PROGRAMS=(thermocline kernels_cuda_test_on_gpu device_cuda_test_on_gpu)

usage() {
  cat <<'END'
tools/gpu_folder.sh DIR [BUILD]   builds the program and the GPU's tests in BUILD
                                  (build/release), which needs nvcc, and puts them
                                  into DIR with the libraries they need and
                                  gpu_check.sh; DIR.tar.xz is the same, packed

There `DIR/gpu_check.sh OUT` runs. JOBS is how many compilers run at once.
Exits 1 where something of the folder would be missing there, or is too large.
END
}

fail() {
  printf 'gpu_folder.sh: %s\n' "$1" >&2
  exit 1
}

# The programs, in BUILD.
build() {
  [[ -f $build/build.ninja ]] || cmake --preset release -B "$build" >/dev/null
  ninja -C "$build" -t query kernels_cuda_test_on_gpu >/dev/null 2>&1 ||
    fail "$build has no kernels for GPUs: nvcc was not found, or tests are off"
  ninja -C "$build" -j "${JOBS:-$(nproc)}" "${PROGRAMS[@]}"
}

# What a program needs besides the C library, as paths.
libraries_of() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -v -E '/(libc|libm|libdl|librt|libpthread)\.so' || true
}

# All of it, into DIR.
collect() {
  local name path
  mkdir -p "$dir/lib" "$dir/machines"
  for name in "${PROGRAMS[@]}"; do
    path=$(find "$build" -name "$name" -type f -perm -u+x | head -n 1)
    [[ -n $path ]] || fail "$build has no $name"
    cp "$path" "$dir/"
    while read -r path; do
      cp -L "$path" "$dir/lib/"
    done < <(libraries_of "$path")
  done
  strip "${PROGRAMS[@]/#/$dir/}" "$dir"/lib/*
  cp "$root/tools/gpu_check.sh" "$dir/"
  cp "$root"/machines/*.json "$dir/machines/"
  cp "$root/LICENSE" "$root/NOTICE" "$root/THIRD_PARTY.md" "$dir/"
}

# Fails where a program would look for a library outside DIR and the C library.
check_libraries() {
  local name outside
  for name in "${PROGRAMS[@]}"; do
    outside=$(env -i PATH="$PATH" ldd "$dir/$name" | grep -v -F "$dir/lib/" |
      grep -v -E '(linux-vdso|ld-linux|/(libc|libm|libdl|librt|libpthread)\.so)' ||
      true)
    [[ -z $outside ]] || fail "$name would need: $outside"
  done
}

# The newest C library that anything in DIR asks for.
needed_glibc() {
  objdump -T "${PROGRAMS[@]/#/$dir/}" "$dir"/lib/* | grep -o 'GLIBC_[0-9.]*' | sort -uV |
    tail -n 1
}

# Packs DIR and compares its size with what may be.
pack() {
  tar -C "$(dirname "$dir")" -c "$(basename "$dir")" | xz -T 0 >"$dir.tar.xz"
  local size
  size=$(stat -c %s "$dir.tar.xz")
  printf '%s: %d bytes packed, of %d; needs %s\n' "$dir" "$size" "$MOST_BYTES" \
    "$(needed_glibc)"
  ((size <= MOST_BYTES)) || fail "the folder is too large"
}

if [[ ${1-} == -h || ${1-} == --help ]]; then
  usage
  exit 0
fi
if (($# < 1 || $# > 2)) || [[ $1 == -* ]]; then
  usage >&2
  exit 2
fi
[[ ! -e $1 ]] || fail "$1 is there already"
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(realpath -m "$1")
build=$(realpath -m "${2-$root/build/release}")
cd "$root"
build
collect
check_libraries
pack
