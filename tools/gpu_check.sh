#!/usr/bin/env bash
# All that a GPU has to show, in one go of at most 13 minutes. See usage below.
# shellcheck disable=SC2317  # steps are called by their names
set -uo pipefail
export LC_ALL=C
readonly STEPS='card kernels device draws memcheck racecheck synccheck initcheck graph
rates models compare bench memory peer'

usage() {
  cat <<'END'
gpu_check.sh OUT [--emulated] [--peer DIR] [--only STEP,...] [--card NAME]

Runs every test, measurement and comparison of a GPU, each with a limit of its own;
none stops another. In the folder that tools/gpu_folder.sh makes, or in the
repository with the programs of build/release (BUILD=DIR: of another).

OUT           folder of the logs, at most 8 files; table.txt is the summary
--emulated    without a GPU: the emulated tests, a simulated device, little of
              everything
--peer DIR    also llama-bench of a llama.cpp build in DIR, on the same card
--only ...    these steps alone
--card NAME   the device, as `thermocline devices` names it (cuda0)

Exits with the number of steps that failed, 64 on wrong usage. The steps:
END
  printf '%s\n' "$STEPS"
}

wrong_usage() {
  printf 'gpu_check.sh: %s\n\n' "$1" >&2
  usage >&2
  exit 64
}

# Ends a step without a verdict: says what is missing.
leave_out() {
  printf 'left out: %s\n' "$1"
  exit 77
}

# Of --only: steps that there are, with the one that makes others' models.
check_only() {
  local name
  for name in ${only//,/ }; do
    [[ " ${STEPS//$'\n'/ } " == *" $name "* ]] || wrong_usage "no such step: $name"
  done
  [[ $only =~ compare|bench|memory ]] && only+=,models
  return 0
}

# Where the programs are, and what differs between a card and its emulation.
find_programs() {
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  local tests=_on_gpu build
  [[ $emulated == 1 ]] && tests=
  if [[ -x $here/thermocline ]]; then
    [[ $emulated == 0 ]] || wrong_usage '--emulated is for the repository'
    root=$here
    program=$here/thermocline
    kernel_tests=$here/kernels_cuda_test$tests
    device_tests=$here/device_cuda_test$tests
  else
    root=$(dirname "$here")
    build=${BUILD-$root/build/release}
    program=$build/thermocline
    kernel_tests=$build/src/kernels/cuda/kernels_cuda_test$tests
    device_tests=$build/src/device/cuda/device_cuda_test$tests
  fi
  on=(--device "$card")
  draws=500 replays=10000 tokens=32 rounds=10 left_out_tests='-'
  shape=llama-1b layers=16 layers_f16=4 moe=smallthinker-4b vrams='64MiB 256MiB 1GiB'
  if [[ $emulated == 1 ]]; then
    on=(--device sim --machine "$root/machines/slow-host.json")
    draws=3 replays=100 tokens=8 rounds=2 left_out_tests='-*Mutants*:*LongDraws*'
    shape=tiny layers=2 layers_f16=2 moe=tiny-moe vrams='512KiB 1MiB 1GiB'
  fi
  PATH=$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin
  export PATH program kernel_tests device_tests card draws replays tokens rounds
  export left_out_tests shape layers layers_f16 moe vrams peer emulated work OUT
}

# Card, driver and memory; one launch.
card() {
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --format=csv --query-gpu=index,name,driver_version,memory.total,memory.used,compute_cap,pcie.link.gen.max,pcie.link.width.max,clocks.max.mem
    nvidia-smi
  else
    echo 'nvidia-smi is not there'
  fi
  grep -m 1 'model name' /proc/cpuinfo
  "$program" --version
  "$program" devices --no-measure "${on[@]}" || return
  "$kernel_tests" --gtest_brief=1 \
    --gtest_filter='AddRowsScaled.EqualsTheReferenceAtOddSizes'
}

# Each suite of a program in a process of its own: a lost device ends one alone.
suites() {
  local failed=0 suite names
  names=$("$1" --gtest_list_tests | sed -n 's/^\([^ ]*\)\.$/\1/p' | grep -v Draws) ||
    return
  for suite in $names; do
    timeout 30 "$1" --gtest_brief=1 \
      --gtest_filter="$suite.*$left_out_tests" || {
      printf '%s: FAILED, exit code %d\n' "$suite" $?
      failed=1
    }
  done
  return "$failed"
}

kernels() { suites "$kernel_tests"; }

device() { suites "$device_tests"; }

# Shapes and values from seeds, against the host's sums in double.
draws() {
  TC_DEVICE_DRAWS=$draws "$device_tests" --gtest_filter='*DeviceDraws*' || return
  [[ $emulated == 1 ]] ||
    "$kernel_tests" --gtest_brief=1 --gtest_filter='*LongDraws*'
}

# One tool of NVIDIA's checker, on the cases whose bits are constants.
sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer ||
    find /usr/local/cuda* /opt/nvidia -name compute-sanitizer -type f 2>/dev/null |
    head -n 1)
  [[ -n $tool ]] || leave_out 'compute-sanitizer is not there'
  "$tool" --tool "$1" --error-exitcode 9 "$kernel_tests" --gtest_brief=1 \
    --gtest_filter='*Bits*:ArgMax.TakesTheFirst*:Predict.WantsWhatIs*:KvAppend.Writes*'
}
memcheck() { sanitizer memcheck; }
racecheck() { sanitizer racecheck; }
synccheck() { sanitizer synccheck; }
initcheck() { sanitizer initcheck; }

# A small graph, replayed.
graph() {
  TC_GRAPH_REPLAYS=$replays "$device_tests" \
    --gtest_filter='*AGraphIsReplayedManyTimes*'
}

# What the card's memory and the link give.
rates() {
  "$program" devices "${on[@]}" && "$program" devices "${on[@]}" --json
}

# Models to measure: synthetic, sparse and prepared, and one for the peer.
models() {
  "$program" synth --like "$shape" --layers "$layers" --type q4_0 \
    -o "$work/q4_0.gguf" &&
    "$program" synth --like "$shape" --layers "$layers_f16" --type f16 \
      -o "$work/f16.gguf" && ls -l "$work"/*.gguf
}

# The distance of two files of floats, squared, over the first one's square.
nmse() {
  paste <(od -An -v -w4 -tf4 "$1") <(od -An -v -w4 -tf4 "$2") | awk '
    /[^-+.0-9e \t]/ { bad = 1 }
    { d = $1 - $2; error += d * d; power += $1 * $1 }
    END { if (bad || NR == 0) print "nan"
          else printf "%.3g\n", (power > 0 ? error / power : error) }'
}

# answer MODEL NAME FLAGS...: logits and words, into NAME.f32 and NAME.txt.
answer() {
  "$program" eval logits -m "$work/$1.gguf" --tokens 5,9,17,33,65,129,12,13 \
    --one-by-one -c 64 -o "$work/$2.f32" "${@:3}" &&
    "$program" run -m "$work/$1.gguf" -p hello -n "$tokens" --temp 0 -c 512 \
      "${@:3}" >"$work/$2.txt"
}

# What the host alone answers and what both do, for every budget.
compare() {
  local model most vram got failed=0
  for model in "q4_0 1e-3" "f16 1e-5"; do
    read -r model most <<<"$model"
    answer "$model" host || return
    for vram in $vrams; do
      answer "$model" card "${on[@]}" --vram "$vram" || return
      got=$(nmse "$work/host.f32" "$work/card.f32")
      printf '%s, %s: NMSE %s of at most %s, words %s\n' "$model" "$vram" "$got" \
        "$most" "$(cmp -s "$work/host.txt" "$work/card.txt" && echo the same ||
          echo DIFFER)"
      awk -v got="$got" -v most="$most" \
        'BEGIN { exit !(got ~ /^[0-9]/ && got + 0 <= most + 0) }' || failed=1
      cmp -s "$work/host.txt" "$work/card.txt" || failed=1
    done
  done
  return "$failed"
}

# Tokens per second, of the host alone and with the card.
bench() {
  local model vram
  for model in q4_0 f16; do
    echo "$model, host alone"
    "$program" bench -m "$work/$model.gguf" -p 0 -n "$tokens" -r "$rounds" ||
      return
    echo "$model, with the card"
    "$program" bench -m "$work/$model.gguf" -p 16 -n "$tokens" "${on[@]}" \
      --vram "${vrams// /,}" || return
    echo "$model, the last two layers on the card (-ngl 2)"
    "$program" bench -m "$work/$model.gguf" -p 16 -n "$tokens" "${on[@]}" \
      -ngl 2 || return
  done
  echo "one layer's neurons"
  "$program" bench op "${on[@]/#$card/host,$card}"
}

# Runs a command and leaves the card's memory in $used: the most while it ran, less
# what was used before, in MiB; empty where nobody counted.
with_memory() {
  local samples=$work/samples before rc sampler
  used=
  if ! command -v nvidia-smi >/dev/null; then
    "$@"
    return
  fi
  local query=(nvidia-smi -i "${card#cuda}" --query-gpu=memory.used
    "--format=csv,noheader,nounits")
  before=$("${query[@]}")
  "${query[@]}" -lms 20 >"$samples" &
  sampler=$!
  "$@"
  rc=$?
  kill "$sampler"
  wait "$sampler" 2>/dev/null
  used=$(sort -n "$samples" | awk -v b="$before" '{ m = $1 - b } END { if (NR) print m }')
  return "$rc"
}

# What the driver counts, with a small budget and with a large one: its own share
# is in both, so that the difference is at most that of the budgets.
memory() {
  command -v nvidia-smi >/dev/null || leave_out 'nvidia-smi is not there'
  local small large vram
  for vram in 32 288; do
    with_memory "$program" run -m "$work/q4_0.gguf" -p hello -n 128 --temp 0 \
      -c 512 "${on[@]}" --vram "${vram}MiB" || return
    [[ -n $used ]] || { echo 'the driver counted nothing'; return 1; }
    printf '%d MiB planned at most, %d MiB by the driver\n' "$vram" "$used"
    if [[ $vram == 32 ]]; then small=$used; else large=$used; fi
  done
  printf 'the driver counts %d MiB more, of at most 256 (and 4 of its own)\n' \
    $((large - small))
  ((large - small <= 256 + 4))
}

# llama-bench at one setting: the median of its runs and the card's memory.
peer_at() {
  with_memory "$llama_bench" -p 0 -n "$tokens" -r "$rounds" -o json "$@" \
    >"$work/peer.json" 2>"$work/peer.log" || {
    tail -n 5 "$work/peer.log"
    return 1
  }
  printf '%s: %s tokens/s, %s MiB of the card\n' "${*:3}" "$(
    sed -n 's/.*"samples_ts": \[\(.*\)\].*/\1/p' "$work/peer.json" | tr ',' '\n' |
      sort -n | awk '{ v[NR] = $1 }
        END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
  )" "${used:-unknown}"
}

# The peer on dense models of the same shape, layer by layer, and of experts.
peer() {
  [[ -n $peer ]] || leave_out '--peer names no build of llama.cpp'
  llama_bench=$(find "$peer" -maxdepth 3 -name llama-bench -type f -perm -u+x |
    head -n 1)
  [[ -n $llama_bench ]] || leave_out "no llama-bench in $peer"
  export LD_LIBRARY_PATH
  LD_LIBRARY_PATH=$(dirname "$llama_bench"):$(dirname "$llama_bench")/../lib
  local ngl n
  "$program" synth --like "$shape" --layers "$layers" --type q4_0 --plain \
    -o "$work/plain.gguf" || return
  for ngl in 0 $((layers / 4)) $((layers / 2)) $((layers + 1)); do
    peer_at -m "$work/plain.gguf" -ngl "$ngl" || return
  done
  if ! "$llama_bench" --help 2>&1 | grep -q -e --n-cpu-moe; then
    echo 'this llama-bench has no --n-cpu-moe'
    return 0
  fi
  "$program" synth --like "$moe" --layers 2 --type q4_0 --plain \
    -o "$work/experts.gguf" || return
  for n in 2 1 0; do
    peer_at -m "$work/experts.gguf" -ngl 99 --n-cpu-moe "$n" || return
  done
}

# Of the table.
row() { printf '%-10s %5s  %s\n' "$@" >>"$OUT/table.txt"; }

# step NAME SECONDS LOG: runs the function NAME, adds its output to OUT/LOG and its
# row to the table.
step() {
  local name=$1 limit=$2 log=$OUT/$3 rc=0 begin=$SECONDS result
  [[ -z $only || ,$only, == *,$name,* ]] || return 0
  printf '%s ...\n' "$name"
  if [[ -n $no_card && $name != card ]]; then
    failed=$((failed + 1))
    row "$name" 0 "FAILED: not run, $no_card"
    return
  fi
  timeout -k 5 "$limit" bash -c "$(declare -p on); $name" >"$work/part" 2>&1 \
    </dev/null || rc=$?
  { printf '\n== %s\n' "$name"; cat "$work/part"; } >>"$log"
  case $rc in
    0) result=ok ;;
    77) result=$(tail -n 1 "$work/part") ;;
    124 | 137) result="FAILED: longer than $limit s" ;;
    *) result="FAILED: exit code $rc" ;;
  esac
  if [[ $result == FAILED* ]]; then
    failed=$((failed + 1))
    tail -n 25 "$work/part"
  fi
  row "$name" $((SECONDS - begin)) "$result"
}

# Empty, or why there is no card to check.
why_no_card() {
  [[ $emulated == 1 ]] && return
  [[ -x $program ]] || { echo "there is no $program"; return; }
  "$program" devices --no-measure --device "$card" 2>&1 >/dev/null |
    sed 's/^thermocline: error: //'
}

main() {
  emulated=0 peer='' only='' card=cuda0 OUT=''
  while (($# > 0)); do
    case $1 in
      -h | --help) usage; exit 0 ;;
      --emulated) emulated=1 ;;
      --peer | --only | --card)
        (($# > 1)) || wrong_usage "$1 needs a value"
        printf -v "${1#--}" %s "$2"
        shift ;;
      -*) wrong_usage "no such flag: $1" ;;
      *) [[ -z $OUT ]] || wrong_usage "more than one OUT: $1"; OUT=$1 ;;
    esac
    shift
  done
  [[ -n $OUT ]] || wrong_usage 'OUT is missing'
  [[ $card != cuda ]] || card=cuda0
  check_only
  mkdir -p "$OUT" || exit 64
  OUT=$(cd "$OUT" && pwd)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  find_programs
  export -f leave_out card suites kernels device draws sanitizer memcheck racecheck \
    synccheck initcheck graph rates models nmse answer compare bench with_memory \
    memory peer_at peer
  no_card=$(why_no_card)
  failed=0
  rm -f "$OUT"/table.txt "$OUT"/{card,tests,sanitizer,rates,models,bench,peer}.log
  row step s result
  step card 20 card.log
  step kernels 60 tests.log
  step device 60 tests.log
  step draws 60 tests.log
  for tool in memcheck racecheck synccheck initcheck; do
    step $tool 25 sanitizer.log
  done
  step graph 30 tests.log
  step rates 20 rates.log
  step models 60 models.log
  step compare 60 models.log
  step bench 150 bench.log
  step memory 40 models.log
  step peer 110 peer.log
  printf '\n'
  cat "$OUT/table.txt"
  exit "$failed"
}

main "$@"
