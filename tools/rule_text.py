"""No machine's paths, left-over markers, or code that clang 19 gets wrong."""

import re

from tree import Violation

# Bytes that others made, and licence texts.
SKIPPED_FOLDERS = ('testdata/', 'models/', 'LICENSES/')

# Written so that no pattern matches its own line.
FORBIDDEN = (
    (re.compile(r'(?<![\w.~*-])/(?:hom[e]|roo[t]|wor[k]|User[s])/'),
     'a path of one machine'),
    (re.compile(r'(?<![\w.])/(?:tm[p]|mn[t]|var/tm[p])/\w*job[s]\b'),
     'a path of one machine'),
    (re.compile(r'\b(?:pypi|crates|registry|rubygems|packagist)\.'
                r'(?:or[g]|i[o]|npmjs\.or[g]|co[m])\b'
                r'|\b(?:pythonhoste[d]|artifactor[y]|deb\.debia[n])\b'),
     'the host of a package registry'),
    (re.compile(r'\b(?:FIXM[E]|XX[X]|HAC[K])\b|\bTOD[O](?!\(\w)'),
     'a left-over marker: finish it, or open an issue'),
)

FORBIDDEN_IN_SOURCES = (
    # With p = 0 to begin with, `if (fabs(x) > fabs(p)) p = x` loses the second
    # fabs at -O1 and above: for -16, then 1, the result is 1.
    (re.compile(r'abs\([^;&|]*\)\s*[<>]=?\s*(?:std::)?f?abs\('),
     'compiled wrongly by clang 19 when it keeps the larger; keep the '
     'magnitude in a variable of its own'),
)


def check(tree):
    violations = []
    sources = set(tree.sources())
    for path in tree.files:
        if path.startswith(SKIPPED_FOLDERS):
            continue
        patterns = FORBIDDEN
        if path in sources:
            patterns += FORBIDDEN_IN_SOURCES
        for number, line in enumerate(tree.lines(path), 1):
            for pattern, what in patterns:
                match = pattern.search(line)
                if match:
                    violations.append(Violation(
                        path, number, f'{match[0]!r} is {what}'))
    return violations
