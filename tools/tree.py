"""The files that the house rules look at."""

import dataclasses
import os
import pathlib
import subprocess

SOURCE_SUFFIXES = ('.h', '.cc', '.cu')


@dataclasses.dataclass(frozen=True)
class Violation:
    path: str
    line: int  # 0: the whole file
    message: str

    def __str__(self):
        place = f'{self.path}:{self.line}' if self.line else self.path
        return f'{place}: {self.message}'


class Tree:
    """A source tree: what git tracks or would track; without git, all files."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = sorted(self._list())

    def _list(self):
        if (self.root / '.git').exists():
            output = subprocess.run(
                ['git', 'ls-files', '-z', '--cached', '--others',
                 '--exclude-standard'],
                cwd=self.root, check=True, capture_output=True).stdout
            names = {os.fsdecode(n) for n in output.split(b'\0') if n}
            return [n for n in names if (self.root / n).is_file()]
        names = []
        for folder, subfolders, files in os.walk(self.root):
            if folder == str(self.root):
                subfolders[:] = [s for s in subfolders if s != 'build']
            names += [os.path.relpath(os.path.join(folder, f), self.root)
                      for f in files]
        return names

    def sources(self):
        """C++ files, headers too."""
        return [f for f in self.files if f.endswith(SOURCE_SUFFIXES)
                and f.startswith(('src/', 'tests/'))]

    def text(self, path):
        """The file as text; None when it is binary or not there."""
        try:
            data = (self.root / path).read_bytes()
        except FileNotFoundError:
            return None
        if b'\0' in data:
            return None
        try:
            return data.decode('utf-8')
        except UnicodeDecodeError:
            return None

    def lines(self, path):
        text = self.text(path)
        return [] if text is None else text.splitlines()


def read_exceptions(tree, path):
    """Lines `file: reason` of an exception list -> ({file: line}, violations).

    Blank lines and lines that start with # are skipped.
    """
    entries, violations = {}, []
    for number, line in enumerate(tree.lines(path), 1):
        line = line.strip()
        if not line or line.startswith('#'):
            continue
        name, _, reason = line.partition(':')
        if not reason.strip():
            violations.append(
                Violation(path, number, f'{name.strip()} has no reason'))
        if name.strip() in entries:
            violations.append(
                Violation(path, number, f'{name.strip()} is listed twice'))
        entries[name.strip()] = number
    return entries, violations


def unused_exceptions(path, entries, used):
    return [Violation(path, line, f'{name} needs no exception; remove the line')
            for name, line in entries.items() if name not in used]
