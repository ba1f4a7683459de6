#!/usr/bin/env python3
"""Prints "SCRIPT CLASS" for every class of tests in Python scripts: what ctest
runs one by one."""

import importlib
import pathlib
import sys
import unittest


def main():
    sys.dont_write_bytecode = True
    for path in map(pathlib.Path, sys.argv[1:]):
        sys.path.insert(0, str(path.parent))
        module = importlib.import_module(path.stem)
        for name, value in vars(module).items():
            if (isinstance(value, type)
                    and issubclass(value, unittest.TestCase)
                    and unittest.defaultTestLoader.getTestCaseNames(value)):
                print(path.stem, name)


if __name__ == "__main__":
    main()
