#!/usr/bin/env python3
"""Runs the house rules on the tree; prints what is broken; exits 1 if any is.

rules.py [RULE...]   all rules, or the named ones: layers pairs text flags sizes
                     checkout format commits
"""

import pathlib
import sys
import time

import rule_checkout
import rule_commits
import rule_flags
import rule_format
import rule_layers
import rule_pairs
import rule_sizes
import rule_text
from tree import Tree

RULES = {
    'layers': rule_layers,
    'pairs': rule_pairs,
    'text': rule_text,
    'flags': rule_flags,
    'sizes': rule_sizes,
    'checkout': rule_checkout,
    'format': rule_format,
    'commits': rule_commits,
}


def main(names):
    unknown = set(names) - set(RULES)
    if unknown:
        print(f'rules.py: no rule {", ".join(sorted(unknown))}; there are '
              f'{" ".join(RULES)}', file=sys.stderr)
        return 2
    tree = Tree(pathlib.Path(__file__).resolve().parent.parent)
    num_broken = 0
    for name in names or RULES:
        start = time.monotonic()
        reason = getattr(RULES[name], 'skip', lambda _: None)(tree)
        if reason:
            print(f'{name:8}{"skipped":16}{reason}')
            continue
        violations = RULES[name].check(tree)
        num_broken += bool(violations)
        verdict = f'{len(violations)} violations' if violations else 'kept'
        print(f'{name:10}{verdict:16}{RULES[name].__doc__.splitlines()[0]} '
              f'({time.monotonic() - start:.1f} s)')
        for violation in violations:
            print(f'    {violation}')
        if name == 'sizes':
            for note in rule_sizes.report(tree):
                print(f'    note: {note}')
    return 1 if num_broken else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
