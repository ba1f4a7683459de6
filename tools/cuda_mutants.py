#!/usr/bin/env python3
"""Writes the mutants of a kernel file, as one file to compile.

cuda_mutants.py [--none] x.cu x_mutants.txt OUT.cu: OUT defines, for each function that
the table names with `launch:`, what kernels/cuda/test_mutants.h describes. The
table is, line by line: `launch: NAME`, or `launch: Launch(XArgs)` for one of
Launch's overloads (kernels/cuda/launch.h); then mutants of it, each a line with
its name, lines `- TEXT` of the source, where white space is as good as any
other, and lines `+ TEXT` to put there instead; or nothing. Lines that start
with # are comments. TEXT has to be in the source once. --none: of each function there
are no mutants.
"""

import pathlib
import re
import sys

OPEN = 'namespace thermocline::cuda {'
CLOSE = '}  // namespace thermocline::cuda'


class TableError(Exception):
    pass


def read_table(text):
    """[(launch function, name, old text, new text)]"""
    mutants, launch = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith('#'):
            continue
        if line.startswith('launch:'):
            launch = line.partition(':')[2].strip()
        elif line[0] in '-+':
            if not mutants:
                raise TableError(f'line {number}: a change before any name')
            mutants[-1][2 if line[0] == '-' else 3].append(line[1:].strip())
        elif launch is None:
            raise TableError(f'line {number}: a mutant before any `launch:`')
        else:
            mutants.append((launch, line.strip(), [], []))
    return [(launch, name, '\n'.join(old), '\n'.join(new))
            for launch, name, old, new in mutants]


def mutate(body, name, old, new):
    pattern = r'\s+'.join(re.escape(word) for word in old.split())
    if not pattern:
        raise TableError(f'"{name}" changes nothing')
    count = len(re.findall(pattern, body))
    if count != 1:
        raise TableError(f'"{name}": its text is in the source {count} times')
    return re.sub(pattern, lambda _: new, body)


def names_of(launch):
    """Of a line `launch:`: the function, its type, and what to call its mutants."""
    overload = re.fullmatch(r'(\w+)\((\w+)Args\)', launch)
    if overload is None:
        return launch, f'decltype(&{launch})', f'MutantsOf{launch}'
    function, op = overload.groups()
    return (function, f'void (*)(const kernels::{op}Args&, void*)',
            f'MutantsOf{op}')


def generate(source, table, has_mutants=True):
    begin, end = source.index(OPEN), source.rindex(CLOSE)
    includes, body = source[:begin], source[begin + len(OPEN):end]
    parts = ['#include <cstddef>\n#include <span>\n', includes,
             '#include "kernels/cuda/test_mutants.h"\n']
    rows = {}
    for index, (launch, name, old, new) in enumerate(read_table(table)):
        if not has_mutants:
            rows[launch] = []
            continue
        space = f'mutant_{index}'
        parts.append(f'namespace thermocline::cuda::{space} {{\n'
                     f'{mutate(body, name, old, new)}\n}}\n')
        function = names_of(launch)[0]
        rows.setdefault(launch, []).append(
            f'{{"{name}", {space}::{function}}}')
    parts.append(OPEN + '\n')
    for launch, entries in rows.items():
        _, launch_type, mutants = names_of(launch)
        mutant = f'Mutant<{launch_type}>'
        if not entries:
            parts.append(f'std::span<const {mutant}> {mutants}() '
                         '{ return {}; }\n')
            continue
        parts.append(f'std::span<const {mutant}> {mutants}() {{\n'
                     f'static const {mutant} mutants[] = {{\n'
                     + ',\n'.join(entries) + '};\nreturn mutants;\n}\n')
    parts.append(CLOSE + '\n')
    return '\n'.join(parts)


def main(*args):
    has_mutants = args[0] != '--none'
    source, table, out = args[-3:]
    try:
        text = generate(pathlib.Path(source).read_text(),
                        pathlib.Path(table).read_text(), has_mutants)
    except (TableError, ValueError) as error:
        print(f'{table}: {error}', file=sys.stderr)
        return 1
    pathlib.Path(out).write_text(text)
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
