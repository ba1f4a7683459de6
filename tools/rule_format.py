"""Every C++ file is formatted as .clang-format says."""

import re
import shutil
import subprocess

from tree import Violation

PROGRAM = 'clang-format-19'


def check(tree):
    sources = tree.sources()
    if not sources:
        return []
    if not shutil.which(PROGRAM):
        return [Violation('.clang-format', 0, f'{PROGRAM} is not installed')]
    result = subprocess.run(
        [PROGRAM, '--dry-run', '--Werror', *sources],
        cwd=tree.root, capture_output=True, text=True, check=False)
    first_lines = {}
    for match in re.finditer(r'^(\S+?):(\d+):\d+: ', result.stderr, re.M):
        first_lines.setdefault(match[1], int(match[2]))
    if result.returncode != 0 and not first_lines:
        return [Violation('.clang-format', 0, result.stderr.strip())]
    return [Violation(path, line, f'not formatted; run {PROGRAM} -i {path}')
            for path, line in first_lines.items()]
