#!/usr/bin/env python3
"""Draws the ratios of several runs of bench/compare.py as one SVG.

  bench/chart.py --title "Speed against llama.cpp" -o speed.svg \\
      "Q4_0=q4_0.json" "Q8_0=q8_0.json"

Each argument is a label and a file that compare.py --json wrote; its tests are
bars in that order, labelled with the label and the test. Needs nothing but
Python's standard library.
"""

import argparse
import json
import math
import pathlib
import sys

import compare


def read_rows(argument):
    """The labelled rows of one run."""
    label, equals, path = argument.partition("=")
    if not equals:
        raise compare.Failure(f"{argument}: is no LABEL=FILE")
    try:
        rows = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["rows"]
        labels = [f"{label} {compare.label_of(row)}".lstrip() for row in rows]
        numbers = [row[key] for row in rows for key in compare.CHARTED]
        if not rows or not all(map(math.isfinite, numbers)):
            raise ValueError
    except OSError as error:
        raise compare.Failure(f"{path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise compare.Failure(
            f"{path}: is nothing that compare.py --json wrote") from error
    return list(zip(labels, rows))


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="LABEL=FILE")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--title", default="speed against the peer")
    args = parser.parse_args(argv)
    try:
        labelled = [row for run in args.runs for row in read_rows(run)]
        compare.write_output(args.output,
                             compare.bar_chart(labelled, args.title))
    except compare.Failure as failure:
        print(f"chart.py: error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
