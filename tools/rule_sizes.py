"""Files past 700 lines need a named exception; long ones are reported."""

import re

from tree import Violation, read_exceptions, unused_exceptions

EXCEPTIONS_PATH = 'tools/size_exceptions.txt'
REPORT_FILE_LINES = 400
MAX_FILE_LINES = 700
REPORT_FUNCTION_LINES = 70

# In our formatting a function at namespace scope starts in column 0, its
# opening line or a continuation of it ends in `{`, and a lone `}` closes it.
_NOT_FUNCTION = re.compile(
    r'\s|#|//|/\*|}|namespace\b|class\b|struct\b|enum\b|union\b|extern\b|'
    r'using\b|public:|private:|protected:')


def check(tree):
    exceptions, violations = read_exceptions(tree, EXCEPTIONS_PATH)
    used = set()
    for path in tree.sources():
        size = len(tree.lines(path))
        if size <= MAX_FILE_LINES:
            continue
        if path in exceptions:
            used.add(path)
            continue
        violations.append(Violation(
            path, 0, f'{size} lines, more than {MAX_FILE_LINES}; split it, or '
            f'name it with a reason in {EXCEPTIONS_PATH}'))
    return violations + unused_exceptions(EXCEPTIONS_PATH, exceptions, used)


def long_functions(lines):
    """(line, length) of functions past REPORT_FUNCTION_LINES; an estimate."""
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
            if number - start + 1 > REPORT_FUNCTION_LINES:
                found.append((start, number - start + 1))
            start = None
    return found


def report(tree):
    """Lines for a person: what is long, though allowed."""
    notes = []
    for path in tree.sources():
        lines = tree.lines(path)
        if len(lines) > REPORT_FILE_LINES:
            notes.append(f'{path}: {len(lines)} lines')
        notes += [f'{path}:{start}: a function of about {length} lines'
                  for start, length in long_functions(lines)]
    return notes
