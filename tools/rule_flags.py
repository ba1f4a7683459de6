"""Libraries name faults; only cli/ names the flags of the program."""

import re

from rule_layers import TEST_FILE
from tree import Violation

# A benchmark is named by what would repeat it (`bench -np 4`), so bench/ names
# its flags; it links into this program alone.
EXEMPT = ('src/cli/', 'src/bench/')

# HTML's and CSS's own: `<!--`, `--hue:200`, `-->`.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_FLAG = re.compile(
    r'(?<![\w<!{};-])(?:--[a-z][a-z-]*[a-z](?![\w:-])'
    r'|-(?:b|c|ctk|ctv|f|m|n|np|o|p|s|t)(?=[ ),;:"]))')


def check(tree):
    violations = []
    for path in tree.sources():
        if (not path.startswith('src/') or path.startswith(EXEMPT)
                or TEST_FILE.fullmatch(path)):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            for literal in _STRING.findall(line.split('//')[0]):
                match = _FLAG.search(literal)
                if match:
                    violations.append(Violation(
                        path, number, f'{match[0]} is a flag of cli/: name the '
                        'fault, and give a Remedy (base/remedy.h)'))
    return violations
