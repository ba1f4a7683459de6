"""All tracked files take at most 49 MB: every clone carries them."""

import os
import subprocess

from tree import Violation

MAX_MB = 49  # what follows from other files is made, not stored
HARD_LIMIT_MB = 52  # which the repository may never pass; the rest is reserve
NUM_NAMED = 5


def _git(tree, *arguments):
    """The entries that git prints; None where git does not know the tree."""
    if not (tree.root / '.git').exists():
        return None
    git = subprocess.run(['git', *arguments, '-z'], cwd=tree.root,
                         capture_output=True)
    if git.returncode != 0:
        return None
    return [os.fsdecode(entry) for entry in git.stdout.split(b'\0') if entry]


def _sizes(tree):
    """File -> bytes."""
    tracked = _git(tree, 'ls-files')
    names = set(tree.files) & set(tree.files if tracked is None else tracked)
    return {name: (tree.root / name).lstat().st_size for name in names}


def _sizes_in_last_commit(tree):
    sizes = {}
    for entry in _git(tree, 'ls-tree', '-r', '-l', 'HEAD') or []:
        about, _, name = entry.partition('\t')
        sizes[name] = int(about.split()[3].replace('-', '0'))
    return sizes


def check(tree):
    sizes = _sizes(tree)
    total = sum(sizes.values())
    if total <= MAX_MB * 1e6:
        return []
    before = _sizes_in_last_commit(tree)
    what, named = 'new or larger', {
        name: size for name, size in sizes.items()
        if before and size > before.get(name, 0)}
    if not named:  # the last commit has too much already
        what, named = 'largest', sizes
    largest = sorted(named, key=lambda name: (-named[name], name))[:NUM_NAMED]
    told = ', '.join(f'{name} {named[name] / 1e6:.2f} MB' for name in largest)
    return [Violation(
        '.', 0, f'{total / 1e6:.2f} MB in tracked files, more than {MAX_MB} '
        f'(and {HARD_LIMIT_MB} is the hard limit); {what}: {told}')]
