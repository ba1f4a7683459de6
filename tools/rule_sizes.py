"""Files and functions keep to their sizes; what exceeds them may only shrink."""

import re

from rule_layers import TEST_FILE
from tree import Violation, read_exceptions, unused_exceptions

EXCEPTIONS_PATH = 'tools/size_exceptions.txt'
MAX_FILE_LINES = 400
MAX_TEST_LINES = 500
AIM_FUNCTION_LINES = 40
MAX_FUNCTION_LINES = 60
SMALL_FILE_LINES = 30

# How many there are; to be lowered with them, never raised.
MOST_LONG_FUNCTIONS = 48  # past the aim
MOST_SMALL_FILES = 94

# In our formatting a function at namespace scope starts in column 0, its
# opening line or a continuation of it ends in `{`, and a lone `}` closes it.
_NOT_FUNCTION = re.compile(
    r'\s|#|//|/\*|}|namespace\b|class\b|struct\b|enum\b|union\b|extern\b|'
    r'using\b|public:|private:|protected:')
# What CMake compiles for one instruction set alone, and what Highway includes
# once for each.
_ISA_FILE = re.compile(r'tc_isa_file\(\s*(\S+)')
_HIGHWAY_FILE = '-inl.h'


def long_functions(lines, limit=AIM_FUNCTION_LINES):
    """(line, length) of functions past the limit; an estimate."""
    found, start, is_open = [], None, False
    for number, line in enumerate(lines, 1):
        if start is None:
            if line and not _NOT_FUNCTION.match(line):
                start, is_open = number, False
        if start is None:
            continue
        if not is_open:
            if line.endswith('{'):
                is_open = '(' in ''.join(lines[start - 1:number])
                start = start if is_open else None
            elif line.endswith((';', '}')) or not line:
                start = None
        elif line.startswith('}'):
            if number - start + 1 > limit:
                found.append((start, number - start + 1))
            start = None
    return found


def small_files(tree):
    of_one_isa = set()
    for path in tree.files:
        if path.endswith('/CMakeLists.txt'):
            folder = path.rpartition('/')[0] + '/cpu/'
            of_one_isa |= {folder + name for name
                           in _ISA_FILE.findall(tree.text(path) or '')}
    return [path for path in tree.sources()
            if len(tree.lines(path)) < SMALL_FILE_LINES
            and path not in of_one_isa and not path.endswith(_HIGHWAY_FILE)]


class Exceptions:
    """Lines `file: N reason` and, of a file's functions, `file(): N reason`."""

    def __init__(self, tree):
        self._entries, self.violations = read_exceptions(tree, EXCEPTIONS_PATH)
        self._used, self._limits = set(), {}
        for name, number in self._entries.items():
            line = tree.lines(EXCEPTIONS_PATH)[number - 1]
            match = re.match(r'\s*(\d+)\s+\S', line.partition(':')[2])
            if match:
                self._limits[name] = int(match[1])
            elif line.partition(':')[2].strip():
                self.violations.append(Violation(
                    EXCEPTIONS_PATH, number, f'{name} needs its number of '
                    'lines and a reason'))

    def allow(self, name, size):
        """Whether something past the limit may have so many lines."""
        if name not in self._entries:
            return False
        self._used.add(name)
        return size <= self._limits.get(name, size)

    def unused(self):
        return unused_exceptions(EXCEPTIONS_PATH, self._entries, self._used)


def check(tree):
    exceptions = Exceptions(tree)
    violations, num_long = list(exceptions.violations), 0
    for path in tree.sources():
        lines = tree.lines(path)
        limit = MAX_TEST_LINES if TEST_FILE.fullmatch(path) else MAX_FILE_LINES
        if len(lines) > limit and not exceptions.allow(path, len(lines)):
            violations.append(Violation(
                path, 0, f'{len(lines)} lines, more than {limit} or than '
                f'{EXCEPTIONS_PATH} allows, which may only shrink: split it'))
        for start, length in long_functions(lines):
            num_long += 1
            if (length > MAX_FUNCTION_LINES
                    and not exceptions.allow(path + '()', length)):
                violations.append(Violation(
                    path, start, f'a function of about {length} lines, more '
                    f'than {MAX_FUNCTION_LINES} or than {EXCEPTIONS_PATH} '
                    'allows'))
    violations += exceptions.unused()
    violations += _check_count(
        num_long, MOST_LONG_FUNCTIONS, 'MOST_LONG_FUNCTIONS',
        f'functions of more than {AIM_FUNCTION_LINES} lines')
    return violations + _check_count(
        len(small_files(tree)), MOST_SMALL_FILES, 'MOST_SMALL_FILES',
        f'files of less than {SMALL_FILE_LINES} lines, which a reader opens '
        'for little')


def _check_count(count, most, name, what):
    if count <= most:
        return []
    return [Violation('tools/rule_sizes.py', 0, f'{count} {what}; {name} is '
                      f'{most}, and may only be lowered')]


def report(tree):
    """Lines for a person: how far the tree is from its limits."""
    num_long = sum(len(long_functions(tree.lines(path)))
                   for path in tree.sources())
    return [f'{num_long} functions of more than {AIM_FUNCTION_LINES} lines, '
            f'{MOST_LONG_FUNCTIONS} allowed',
            f'{len(small_files(tree))} files of less than {SMALL_FILE_LINES} '
            f'lines, {MOST_SMALL_FILES} allowed']
