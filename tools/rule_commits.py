"""Commits say why, in prose, below the line that says what."""

import re
import subprocess

from tree import Violation

# The rule is younger than what lies before.
START = '56106e3'
MIN_WORDS = 8

_TRAILER = re.compile(r'[A-Z][\w-]*: \S')


def _git(tree, *args):
    return subprocess.run(['git', *args], cwd=tree.root, check=False,
                          capture_output=True, text=True)


def skip(tree):
    """Why the rule cannot be checked here; None: it can."""
    if not (tree.root / '.git').exists():
        return 'no git history here'
    if _git(tree, 'merge-base', '--is-ancestor', START, 'HEAD').returncode:
        return f'the history does not reach back to {START}'
    return None


def check(tree):
    if skip(tree):
        return []
    log = _git(tree, 'log', '--no-merges', '--format=%h%n%B%x00',
               f'{START}..HEAD').stdout
    violations = []
    for entry in log.split('\0'):
        name, _, message = entry.strip().partition('\n')
        if name and not _says_why(message):
            violations.append(Violation(
                f'commit {name}', 0, f'{message.partition(chr(10))[0]!r} has '
                f'no body that says why, in {MIN_WORDS} words or more'))
    return violations


def _says_why(message):
    body = [line for line in message.split('\n')[1:]
            if not _TRAILER.match(line)]
    return len(' '.join(body).split()) >= MIN_WORDS
