"""Every .cc and .cu under src/ has a _test.cc beside it or a named exception."""

from tree import Violation, read_exceptions, unused_exceptions

EXCEPTIONS_PATH = 'tools/test_exceptions.txt'
OWN_PROGRAMS = ('_test.cc', '_fuzz.cc')


def check(tree):
    exceptions, violations = read_exceptions(tree, EXCEPTIONS_PATH)
    files = set(tree.files)
    used = set()
    for path in tree.sources():
        if (not path.startswith('src/') or path.endswith('.h')
                or path.endswith(OWN_PROGRAMS)):
            continue
        if path[:-len('.cc')] + '_test.cc' in files:
            continue
        if path in exceptions:
            used.add(path)
            continue
        violations.append(Violation(
            path, 0, 'has no _test.cc beside it; write one, or name it with a '
            f'reason in {EXCEPTIONS_PATH}'))
    return violations + unused_exceptions(EXCEPTIONS_PATH, exceptions, used)
