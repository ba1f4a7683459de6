#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) on the sources of a build folder; tests are
left out. Exits 1 on any warning."""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = 'clang-tidy-19'


def sources_of(build):
    """Our own compiled files under src/, without tests and fuzz programs."""
    commands = json.loads((build / 'compile_commands.json').read_text())
    files = {pathlib.Path(c['directory'], c['file']).resolve()
             for c in commands}
    return sorted(f for f in files if f.is_relative_to(ROOT / 'src')
                  and not f.name.endswith(('_test.cc', '_fuzz.cc')))


def run_one(source, build):
    begin = time.monotonic()
    result = subprocess.run(
        [PROGRAM, '--quiet', '-p', str(build), str(source)],
        cwd=ROOT, capture_output=True, text=True, check=False)
    output = result.stdout.strip()
    if result.returncode != 0 and not output:
        output = result.stderr.strip()
    return source, result.returncode, output, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('files', nargs='*', type=pathlib.Path,
                        help='only these')
    parser.add_argument('-j', '--jobs', type=int, default=1)
    parser.add_argument('--times', action='store_true',
                        help='print how long each file took')
    args = parser.parse_intermixed_args()

    build = args.build.resolve()
    sources = sources_of(build)
    if args.files:
        chosen = {f.resolve() for f in args.files}
        sources = [s for s in sources if s in chosen]
    if not sources:
        print(f'tidy.py: {build}/compile_commands.json names no sources',
              file=sys.stderr)
        return 1

    num_failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for source, status, output, seconds in pool.map(
                lambda s: run_one(s, build), sources):
            if args.times:
                print(f'{seconds:6.1f} s  {source.relative_to(ROOT)}')
            if status != 0 or output:
                num_failed += 1
                print(output, flush=True)
    print(f'{len(sources)} files, {num_failed} with warnings')
    return 1 if num_failed else 0


if __name__ == '__main__':
    sys.exit(main())
