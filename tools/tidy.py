#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) on the sources of a build folder; tests are
left out. Exits 1 on any warning."""

import argparse
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = 'clang-tidy-19'


# A unit includes sources, which is what this check is about.
UNIT_CHECKS = '--checks=-bugprone-suspicious-include'


def commands_of(build):
    """Our own compiled files under src/, without tests and fuzz programs, each
    with the flags that it is compiled with."""
    flags_of = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        source = pathlib.Path(entry['directory'], entry['file']).resolve()
        if (not source.is_relative_to(ROOT / 'src')
                or source.name.endswith(('_test.cc', '_fuzz.cc'))):
            continue
        words = shlex.split(entry['command'])
        words = words[1 + next(i for i, word in enumerate(words)
                               if 'clang' in pathlib.Path(word).name):]
        flags = []
        while words:
            word = words.pop(0)
            if word in ('-o', '-c', '-MT', '-MF'):
                words.pop(0)
            elif word != '-MD':
                flags.append(word)
        flags_of[source] = tuple(flags)
    return dict(sorted(flags_of.items()))


def room_of(source):
    return source.relative_to(ROOT / 'src').parts[0]


def units_of(flags_of):
    """Lists of sources that are looked at together, as one translation unit:
    all that are compiled alike, since most of the time goes into the headers
    that they share. The kernels for single CPUs stay alone: each has its own
    helpers, and some include themselves. Longest first."""
    units = {}
    for source, flags in flags_of.items():
        alone = source if source.parent.name == 'cpu' else None
        units.setdefault((flags, alone), []).append(source)
    return sorted(units.values(), key=len, reverse=True)


def parts_of(sources):
    """A unit's rooms, or the single sources of one room."""
    rooms = {}
    for source in sources:
        rooms.setdefault(room_of(source), []).append(source)
    return list(rooms.values()) if len(rooms) > 1 else [[s] for s in sources]


def run_tidy(sources, flags, build):
    """clang-tidy's status and output for some sources as one unit."""
    command = [PROGRAM, '--quiet']
    if len(sources) == 1:
        command += ['-p', str(build), str(sources[0])]
        return run(command)
    with tempfile.NamedTemporaryFile('w', suffix='.cc') as unit:
        unit.writelines(f'#include "{source}"\n' for source in sources)
        unit.flush()
        return run(command + [f'--config-file={ROOT}/.clang-tidy', UNIT_CHECKS,
                              unit.name, '--', *flags])


def run(command):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                            check=False)
    output = result.stdout.strip()
    if result.returncode != 0 and not output:
        output = result.stderr.strip()
    return result.returncode, output


def outputs_of(sources, flags, build):
    """What clang-tidy says, part by part where it says anything: names of
    several unnamed namespaces may clash, and global ones look like a header's."""
    status, output = run_tidy(sources, flags, build)
    if not status and not output:
        return []
    if len(sources) == 1:
        return [output]
    return [text for part in parts_of(sources)
            for text in outputs_of(part, flags, build)]


def run_unit(sources, flags, build):
    begin = time.monotonic()
    outputs = outputs_of(sources, flags, build)
    return sources, outputs, time.monotonic() - begin


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
    flags_of = commands_of(build)
    if args.files:
        chosen = {f.resolve() for f in args.files}
        flags_of = {s: f for s, f in flags_of.items() if s in chosen}
    if not flags_of:
        print(f'tidy.py: {build}/compile_commands.json names no sources',
              file=sys.stderr)
        return 1

    num_failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for sources, outputs, seconds in pool.map(
                lambda unit: run_unit(unit, flags_of[unit[0]], build),
                units_of(flags_of)):
            if args.times:
                names = ' '.join(str(s.relative_to(ROOT)) for s in sources)
                print(f'{seconds:6.1f} s  {names}')
            num_failed += len(outputs)
            for output in outputs:
                print(output, flush=True)
    print(f'{len(flags_of)} files, {num_failed} with warnings')
    return 1 if num_failed else 0


if __name__ == '__main__':
    sys.exit(main())
