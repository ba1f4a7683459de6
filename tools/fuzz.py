#!/usr/bin/env python3
"""Runs every fuzz program of a build folder for a while; exits 1 on a finding.

Seeds come from testdata/fuzz/PROGRAM/ where that folder exists. What libFuzzer
learns stays in BUILD/corpus/PROGRAM, an input that fails in BUILD/findings/.
"""

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_one(program, build, seconds):
    """(the name, its exit status, the last lines it printed)."""
    corpus = build / 'corpus' / program.name
    findings = build / 'findings'
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = ROOT / 'testdata' / 'fuzz' / program.name
    command = [
        str(program), f'-max_total_time={seconds}', '-timeout=20',
        '-rss_limit_mb=2048', '-print_final_stats=1', '-verbosity=1',
        f'-artifact_prefix={findings}/{program.name}-', str(corpus)]
    if seeds.is_dir():
        command.append(str(seeds))
    try:
        result = subprocess.run(
            command, cwd=ROOT, text=True, errors='replace', check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=seconds + 120)
    except subprocess.TimeoutExpired as late:
        return program.name, 124, str(late)
    return program.name, result.returncode, result.stdout


def stat(output, name):
    for line in output.splitlines():
        if line.startswith(f'stat::{name}:'):
            return line.split()[-1]
    return '?'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('-j', '--jobs', type=int, default=1)
    parser.add_argument('--seconds', type=int, default=60,
                        help='for each program, if the budget allows')
    parser.add_argument('--budget', type=int, default=300,
                        help='seconds for all programs together')
    args = parser.parse_args()

    build = args.build.resolve()
    programs = sorted(p for p in (build / 'fuzzers').glob('*_fuzz')
                      if p.is_file())
    if not programs:
        print(f'fuzz.py: no programs in {build}/fuzzers', file=sys.stderr)
        return 1
    rounds = -(-len(programs) // args.jobs)
    seconds = max(1, min(args.seconds, args.budget // rounds))
    print(f'{len(programs)} programs, {seconds} s each, {args.jobs} at a time',
          flush=True)

    num_failed = 0
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(run_one, p, build, seconds) for p in programs]
        for run in concurrent.futures.as_completed(runs):
            name, status, output = run.result()
            elapsed = time.monotonic() - start
            if status == 0:
                print(f'  {name}: no finding in '
                      f'{stat(output, "number_of_executed_units")} runs '
                      f'(at {elapsed:.0f} s)', flush=True)
                continue
            num_failed += 1
            print(f'  {name}: FAILED, exit {status}; the input is in '
                  f'{build}/findings')
            print('\n'.join(output.splitlines()[-60:]), flush=True)
    return 1 if num_failed else 0


if __name__ == '__main__':
    sys.exit(main())
