#!/usr/bin/env python3
"""Compares this program's speed with another's, in rounds that take turns.

  bench/compare.py --peer build/bin/llama-bench -m model.gguf -p 512 -n 64 -t 1,2

The peer is any program that takes llama-bench's flags and prints its JSON:
llama.cpp's, ik_llama.cpp's. Speeds of one machine drift by the minute, so each
round runs this program and the peer one after the other, with a read probe
before, between and behind them, and only the ratio within a round counts.
Rounds in which memory was slow (one of its probes far below the best) are
dropped and made up for. A virtual machine may have slow and fast memory by
turns, as the host moves its CPUs: --wait S lets a round begin only when memory
is fast, or after S seconds. Ctrl-C ends a test with the rounds that it has. So
does a program that fails, and no further test begins.

Standard output gets a Markdown table: medians, the median of the rounds' ratios
with the smallest and the largest, and this program's share of the memory's
roof, or "in cache" where that does not limit it. Needs nothing but Python's
standard library.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

UNDISTURBED_SHARE = 0.85  # as in src/bench/samples.h
CHARTED = ("ratio", "ratio_min", "ratio_max")  # what bar_chart() takes of a row
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Failure(Exception):
    """What the user gets to read."""


def run_json(command):
    """The JSON that a program prints."""
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise Failure(f"{' '.join(command)}: exit code {done.returncode}: "
                      + "".join(last))
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise Failure(f"{' '.join(command)}: prints no JSON") from error


def check_output(path):
    """Fails before anything is measured if nothing can be written to `path`."""
    is_new = not os.path.lexists(path)
    try:
        with open(path, "a", encoding="utf-8"):
            pass
        if is_new:
            os.unlink(path)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error


def write_output(path, text):
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error


class Test:
    """A prompt or some generated tokens, with so many threads, at a depth."""

    def __init__(self, num_prompt, num_generate, depth, threads):
        self.num_prompt, self.num_generate = num_prompt, num_generate
        self.depth, self.threads = depth, threads

    @property
    def name(self):
        name = (f"pp{self.num_prompt}" if self.num_prompt
                else f"tg{self.num_generate}")
        return name + (f" @ d{self.depth}" if self.depth else "")

    def flags(self):
        flags = ["-p", str(self.num_prompt), "-n", str(self.num_generate),
                 "-t", str(self.threads)]
        return flags + (["-d", str(self.depth)] if self.depth else [])

    def row_of(self, rows, program):
        """The one row about this test in what a program printed."""
        found = [row for row in rows
                 if (row.get("n_prompt"), row.get("n_gen")) ==
                 (self.num_prompt, self.num_generate)]
        if len(found) != 1 or not found[0].get("avg_ts", 0) > 0:
            raise Failure(f"{program}: no speed of {self.name} in its output")
        return found[0]


def list_tests(args):
    return [Test(p, n, d, t) for t in args.threads for d in args.depth
            for p, n in ([(p, 0) for p in args.prompt if p]
                         + [(0, n) for n in args.generate if n])]


class Bench:
    """How the two programs and the probe are called."""

    def __init__(self, args):
        self.args = args

    def probe(self, threads):
        report = run_json([self.args.ours, "bench", "roof", "--reads-only",
                           "-m", self.args.model, "-t", str(threads), "-o",
                           "json"])
        return report["reads"][0]["gb_per_s"]

    def ours(self, test):
        command = [self.args.ours, "bench", "-m", self.args.model, "-r",
                   str(self.args.repetitions), "-b", str(self.args.batch),
                   "-o", "json", *test.flags(), *self.args.ours_flags]
        row = test.row_of(run_json(command), self.args.ours)
        return row.get("median_ts", row["avg_ts"]), row

    def peer(self, test):
        model = self.args.peer_model or self.args.model
        command = [self.args.peer, "-m", model, "-r", "1", "-b",
                   str(self.args.batch), "-ub", str(self.args.batch), "-o",
                   "json", *test.flags(), *self.args.peer_flags]
        return test.row_of(run_json(command), self.args.peer)["avg_ts"]

    def fast_probe(self, threads, best):
        """A probe that is not far below the best so far, if one comes in time."""
        end = time.monotonic() + self.args.wait
        probe = self.probe(threads)
        while probe < UNDISTURBED_SHARE * best and time.monotonic() < end:
            probe = self.probe(threads)
        return probe

    def round(self, test, rounds):
        """The next round; the two take turns in going first."""
        best = max((r["best_gb_per_s"] for r in rounds), default=0)
        probes = [self.fast_probe(test.threads, best)]
        if len(rounds) % 2 == 0:
            ours, row = self.ours(test)
            probes.append(self.probe(test.threads))
            peer = self.peer(test)
        else:
            peer = self.peer(test)
            probes.append(self.probe(test.threads))
            ours, row = self.ours(test)
        probes.append(self.probe(test.threads))
        return {"probe_gb_per_s": min(probes), "best_gb_per_s": max(probes),
                "ours_ts": ours, "peer_ts": peer,
                "ratio": ours / peer,
                "bytes_per_token": row.get("bytes_per_token"),
                "limit": row.get("limit"),
                "in_cache": row.get("in_cache", False)}


def undisturbed(rounds):
    best = max(r["best_gb_per_s"] for r in rounds)
    return [r for r in rounds
            if r["probe_gb_per_s"] >= UNDISTURBED_SHARE * best]


def choose(rounds, num_wanted):
    """The rounds that count: the undisturbed ones, but at least three."""
    chosen = undisturbed(rounds)
    at_least = min(3, num_wanted)
    if len(chosen) >= at_least:
        return chosen
    return sorted(rounds, key=lambda r: -r["probe_gb_per_s"])[:at_least]


def threads_of(num_threads):
    return f"{num_threads} thread" + ("" if num_threads == 1 else "s")


def tell(line):
    print(line, file=sys.stderr)


def measure(bench, test, num_wanted, num_most, rounds):
    """Adds to `rounds`, each when it is finished."""
    while (len(rounds) < num_wanted
           or (len(undisturbed(rounds)) < num_wanted
               and len(rounds) < num_most)):
        try:
            rounds.append(bench.round(test, rounds))
        except KeyboardInterrupt:
            if not rounds:
                raise
            tell("interrupted: these are the rounds that were finished")
            break
        last = rounds[-1]
        tell(f"{test.name}, {threads_of(test.threads)}, round {len(rounds)}: "
             f"probe {last['probe_gb_per_s']:.1f} GB/s, ours {last['ours_ts']:.2f}, "
             f"peer {last['peer_ts']:.2f}, ratio {last['ratio']:.3f}")


def run_tests(args, rows):
    """Adds a row per test, of its finished rounds where it ends early."""
    bench = Bench(args)
    for test in list_tests(args):
        rounds = []
        try:
            measure(bench, test, args.rounds,
                    args.most_rounds or 2 * args.rounds, rounds)
        finally:
            if rounds:
                rows.append(summarise(test, rounds, args.rounds))


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def summarise(test, rounds, num_wanted):
    chosen = choose(rounds, num_wanted)

    def median(key):
        return statistics.median(r[key] for r in chosen)

    ratios = [r["ratio"] for r in chosen]
    roof = max(r["best_gb_per_s"] for r in rounds)
    row = {
        "test": test.name, "n_prompt": test.num_prompt,
        "n_gen": test.num_generate, "n_depth": test.depth,
        "n_threads": test.threads, "ours_ts": median("ours_ts"),
        "peer_ts": median("peer_ts"), "ratio": statistics.median(ratios),
        "ratio_min": min(ratios), "ratio_max": max(ratios),
        "ratio_quartiles": quartiles(ratios), "roof_gb_per_s": roof,
        "gb_per_s": None, "percent_of_roof": None,
        "limit": chosen[0]["limit"], "in_cache": chosen[0]["in_cache"],
        "rounds": rounds,
        "num_dropped": len(rounds) - len(chosen),
    }
    num_bytes = chosen[0]["bytes_per_token"]
    if num_bytes and test.num_generate:
        row["gb_per_s"] = row["ours_ts"] * num_bytes / 1e9
        # A cache is faster than the memory that the probe reads.
        if not row["in_cache"]:
            row["percent_of_roof"] = 100 * row["gb_per_s"] / roof
    return row


def table(rows, peer_name):
    def cell(value, form):
        return "" if value is None else format(value, form)

    lines = [f"| test | threads | ours t/s | {peer_name} t/s | ratio | "
             "min..max | GB/s | % of roof | rounds |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        percent = ("in cache" if row["in_cache"]
                   else cell(row["percent_of_roof"], ".1f"))
        kept = len(row["rounds"]) - row["num_dropped"]
        lines.append(
            f"| {row['test']} | {row['n_threads']} | {row['ours_ts']:.2f} | "
            f"{row['peer_ts']:.2f} | {row['ratio']:.2f} | "
            f"{row['ratio_min']:.2f}..{row['ratio_max']:.2f} | "
            f"{cell(row['gb_per_s'], '.2f')} | {percent} | "
            f"{kept} of {len(row['rounds'])} |")
    return "\n".join(lines)


def escape(text):
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, entity)
    return text


def label_of(row):
    return f"{row['test']}, {row['n_threads']} thr"


def bar_chart(labelled, title):
    """An SVG of ratios: for each (label, row) a bar, and a whisker from least
    to most; a line at equal speed."""
    left = 24 + max(7 * len(label) for label, _ in labelled)
    width, step, top = 420, 28, 46
    most = max([1.0] + [row["ratio_max"] for _, row in labelled]) * 1.08
    bottom = top + step * len(labelled)

    def x(ratio):
        return left + width * ratio / most

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 '
           f'{left + width + 70} {bottom + 34}" font-family="sans-serif" '
           'font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="12" y="24" font-size="15">{escape(title)}</text>']
    for i, (label, row) in enumerate(labelled):
        y = top + step * i
        middle = y + step / 2
        colour = "#2b7a5b" if row["ratio"] >= 1 else "#b5482f"
        out += [
            f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">'
            f'{escape(label)}</text>',
            f'<rect x="{left}" y="{y + 4}" width="{x(row["ratio"]) - left:.1f}"'
            f' height="{step - 8}" fill="{colour}"/>',
            f'<path d="M{x(row["ratio_min"]):.1f} {middle}H'
            f'{x(row["ratio_max"]):.1f}" stroke="#222" stroke-width="1.5"/>',
            f'<text x="{x(row["ratio_max"]) + 6:.1f}" y="{middle + 4}">'
            f'{row["ratio"]:.2f}</text>']
    out += [f'<path d="M{x(1):.1f} {top - 4}V{bottom + 4}" stroke="#222" '
            'stroke-dasharray="4 3"/>',
            f'<text x="{x(1):.1f}" y="{bottom + 20}" text-anchor="middle">'
            'equal speed</text>', "</svg>"]
    return "\n".join(out) + "\n"


def number_list(text):
    numbers = [int(part) for part in text.split(",")]
    if min(numbers) < 0:
        raise ValueError
    return numbers


def parse_args(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=str(ROOT / "build/release/thermocline"))
    parser.add_argument("--peer", required=True, help="a llama-bench")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-p", "--prompt", type=number_list, default=[512])
    parser.add_argument("-n", "--generate", type=number_list, default=[64])
    parser.add_argument("-d", "--depth", type=number_list, default=[0])
    parser.add_argument("-t", "--threads", type=number_list, default=[1, 2])
    parser.add_argument("-b", "--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--most-rounds", type=int,
                        help="with those that are dropped (default: twice "
                        "--rounds)")
    parser.add_argument("--wait", type=float, default=0, metavar="S",
                        help="seconds that a round may wait for memory as fast "
                        "as it was in an earlier one")
    parser.add_argument("--repetitions", type=int, default=1,
                        help="of ours in a round (default 1)")
    parser.add_argument("--peer-model",
                        help="the peer's file, where it is another than -m")
    parser.add_argument("--ours-flags", type=str.split, default=[],
                        help="more flags for ours, in one argument")
    parser.add_argument("--peer-flags", type=str.split, default=[])
    parser.add_argument("--peer-name", default="peer")
    parser.add_argument("--json", help="file for all numbers")
    parser.add_argument("--svg", help="file for a chart of the ratios")
    args = parser.parse_args(argv)
    if args.rounds < 1 or args.repetitions < 1 or args.batch < 1:
        parser.error("rounds, repetitions and batch are at least 1")
    if args.most_rounds is not None and args.most_rounds < args.rounds:
        parser.error("--most-rounds is no less than --rounds")
    if not list_tests(args):
        parser.error("nothing to run: -p and -n are both 0")
    return args


def write_results(args, rows):
    print(table(rows, args.peer_name))
    name = pathlib.Path(args.model).name
    if args.json:
        write_output(args.json, json.dumps(
            {"model": name, "peer": args.peer_name, "rows": rows}, indent=1))
    if args.svg:
        write_output(args.svg,
                     bar_chart([(label_of(row), row) for row in rows],
                               f"{name}: speed against {args.peer_name}"))


def complain(failure):
    tell(f"compare.py: error: {failure}")
    return 1


def run(args):
    """The exit code; what was measured before a failure is written too."""
    for path in filter(None, (args.json, args.svg)):
        check_output(path)
    rows, code = [], 0
    try:
        run_tests(args, rows)
    except KeyboardInterrupt:
        code = 0 if rows else 130
    except Failure as failure:
        code = complain(failure)
    if rows:
        write_results(args, rows)
    return code


def main(argv=None):
    args = parse_args(argv)
    try:
        return run(args)
    except Failure as failure:
        return complain(failure)


if __name__ == "__main__":
    sys.exit(main())
