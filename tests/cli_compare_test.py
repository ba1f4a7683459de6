#!/usr/bin/env python3
"""bench/compare.py: with programs that only print, and once with ours."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from cli_support import GOLDEN, PROGRAM, ROOT, WAIT_LIMIT_S

sys.path.insert(0, str(ROOT / "bench"))
import compare  # noqa: E402

# A llama-bench, and a thermocline: both say the flags that they were given.
# Rates of the probe come from a file, one line a call, the last one for good.
FAKE = r"""#!/bin/sh
echo "$0 $*" >> calls.txt
case "$*" in
  *roof*)
    rate=$(head -n 1 probes.txt)
    [ $(wc -l < probes.txt) -gt 1 ] && sed -i 1d probes.txt
    echo "{\"reads\": [{\"gb_per_s\": $rate}]}" ;;
  *"-p 64"*) echo "[{\"n_prompt\": 64, \"n_gen\": 0, \"avg_ts\": $PP,
             \"in_cache\": $IN_CACHE}]" ;;
  *) echo "[{\"n_prompt\": 0, \"n_gen\": 8, \"avg_ts\": $TG,
             \"bytes_per_token\": 500000000, \"limit\": \"memory\",
             \"in_cache\": $IN_CACHE}]" ;;
esac
"""


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "probes.txt").write_text("20\n")
        self.make("ours", 300, 30)
        self.make("peer", 100, 20)

    def make(self, name, prefill, decode, in_cache="false"):
        path = self.folder / name
        path.write_text(FAKE.replace("$PP", str(prefill))
                        .replace("$TG", str(decode))
                        .replace("$IN_CACHE", in_cache))
        path.chmod(0o755)

    def compare(self, *args):
        return subprocess.run(
            [sys.executable, str(ROOT / "bench/compare.py"), "--ours", "./ours",
             "--peer", "./peer", "-m", "m.gguf", *args], cwd=self.folder,
            capture_output=True, timeout=WAIT_LIMIT_S, check=False)

    def test_table_json_and_chart(self):
        done = self.compare("-p", "64", "-n", "8", "-t", "2", "--rounds", "4",
                            "--peer-name", "llama.cpp", "--json", "out.json",
                            "--svg", "out.svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertIn("llama.cpp t/s", lines[0])
        self.assertEqual(lines[2], "| pp64 | 2 | 300.00 | 100.00 | 3.00 | "
                         "3.00..3.00 |  |  | 4 of 4 |")
        self.assertEqual(lines[3], "| tg8 | 2 | 30.00 | 20.00 | 1.50 | "
                         "1.50..1.50 | 15.00 | 75.0 | 4 of 4 |")
        self.assertIn(b"pp64, 2 threads, round 4", done.stderr)
        report = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(len(report["rows"][1]["rounds"]), 4)
        self.assertEqual(report["rows"][1]["limit"], "memory")
        chart = (self.folder / "out.svg").read_text()
        self.assertTrue(chart.startswith("<svg"))
        self.assertIn("tg8, 2 thr", chart)

    def test_no_share_of_the_roof_in_a_cache(self):
        self.make("ours", 300, 90, in_cache="true")
        done = self.compare("-p", "64", "-n", "8", "-t", "2", "--rounds", "1",
                            "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertIn("|  | in cache | 1 of 1 |", lines[2])
        self.assertIn("| 45.00 | in cache | 1 of 1 |", lines[3])
        for row in json.loads((self.folder / "out.json").read_text())["rows"]:
            self.assertIs(row["in_cache"], True)
            self.assertIsNone(row["percent_of_roof"])

    def chart(self, *args):
        return subprocess.run(
            [sys.executable, str(ROOT / "bench/chart.py"), *args],
            cwd=self.folder, capture_output=True, timeout=WAIT_LIMIT_S,
            check=False)

    def test_one_chart_of_several_runs(self):
        for name in ("a.json", "b.json"):
            done = self.compare("-p", "0", "-n", "8", "-t", "2", "--rounds",
                                "1", "--json", name)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.chart("--title", "a < b", "-o", "all.svg", "Q4_0=a.json",
                          "=b.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        chart = (self.folder / "all.svg").read_text()
        self.assertIn(">Q4_0 tg8, 2 thr<", chart)
        self.assertIn(">tg8, 2 thr<", chart)
        self.assertIn("a &lt; b", chart)
        self.assertEqual(chart.count(">1.50<"), 2)

    def assert_one_error(self, done, said):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(said, done.stderr.splitlines()[-1])
        self.assertNotIn(b"Traceback", done.stderr)

    def test_a_chart_of_what_is_no_run(self):
        row = {"test": "tg8", "n_threads": 2, "ratio": 1.5, "ratio_min": 1.4,
               "ratio_max": 1.6}
        for rows in ([], [{}], [{"test": "tg8", "n_threads": 2}],
                     [{**row, "ratio_max": "1.6"}],
                     [{**row, "ratio": float("nan")}]):
            (self.folder / "other.json").write_text(json.dumps({"rows": rows}))
            self.assert_one_error(self.chart("-o", "all.svg", "a=other.json"),
                                  b"other.json: is nothing that")
        self.assert_one_error(self.chart("-o", "all.svg", "a=none.json"),
                              b"none.json: No such file")
        (self.folder / "run.json").write_text(json.dumps({"rows": [row]}))
        self.assert_one_error(self.chart("-o", "all.svg", "run.json"),
                              b"run.json: is no LABEL=FILE")
        self.assertFalse((self.folder / "all.svg").exists())
        self.assert_one_error(self.chart("-o", "none/all.svg", "a=run.json"),
                              b"none/all.svg: No such file")

    def test_takes_turns_with_the_flags_of_llama_bench(self):
        done = self.compare("-p", "0", "-n", "8", "-t", "1", "-d", "256",
                            "--rounds", "2", "--peer-flags=-mmp 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = (self.folder / "calls.txt").read_text().splitlines()
        who = [call.split()[0] + (" probe" if "roof" in call else "")
               for call in calls]
        self.assertEqual(who, [
            "./ours probe", "./ours", "./ours probe", "./peer", "./ours probe",
            "./ours probe", "./peer", "./ours probe", "./ours", "./ours probe"])
        self.assertEqual(calls[3], "./peer -m m.gguf -r 1 -b 512 -ub 512 -o "
                         "json -p 0 -n 8 -t 1 -d 256 -mmp 0")

    def probes(self, *rates):
        (self.folder / "probes.txt").write_text(
            "".join(f"{rate}\n" for rate in rates))

    def test_drops_rounds_with_a_slow_probe(self):
        """Before, between or behind the programs."""
        for place in range(3):
            slow = [20] * 3
            slow[place] = 9
            self.probes(*[20] * 3, *slow, 20)
            done = self.compare("-p", "0", "-n", "8", "-t", "1", "--rounds", "3")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"| 3 of 4 |", done.stdout)

    def test_waits_for_fast_memory(self):
        self.probes(*[20] * 3, 9, 9, 9, 20)
        done = self.compare("-p", "0", "-n", "8", "-t", "1", "--rounds", "2",
                            "--wait", "60")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"| 2 of 2 |", done.stdout)
        calls = (self.folder / "calls.txt").read_text()
        self.assertEqual(calls.count(" roof "), 9)
        self.assertEqual(calls.count("./peer"), 2)

    def peer_interrupts_its_second_run(self):
        (self.folder / "peer").write_text(
            "#!/bin/sh\nif [ -e once ]; then kill -INT $PPID; sleep 60; fi\n"
            "touch once\necho '[{\"n_prompt\": 0, \"n_gen\": 8, "
            "\"avg_ts\": 20}]'\n")

    def test_an_interrupt_keeps_what_is_finished(self):
        self.peer_interrupts_its_second_run()
        done = self.compare("-p", "0", "-n", "8", "-t", "1", "--rounds", "9")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"| 1.50 | 1.50..1.50 | 15.00 | 75.0 | 1 of 1 |",
                      done.stdout)
        self.assertIn(b"interrupted", done.stderr)

    def test_an_interrupt_keeps_the_tests_before(self):
        self.peer_interrupts_its_second_run()
        done = self.compare("-p", "0", "-n", "8", "-t", "1,2", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"| tg8 | 1 | 30.00", done.stdout)
        self.assertNotIn(b"| tg8 | 2 |", done.stdout)

    def peer_fails_its_second_run(self):
        (self.folder / "peer").write_text(
            "#!/bin/sh\nif [ -e once ]; then echo why >&2; exit 3; fi\n"
            "touch once\necho '[{\"n_prompt\": 0, \"n_gen\": 8, "
            "\"avg_ts\": 20}]'\n")

    def test_a_failure_keeps_the_tests_before(self):
        self.peer_fails_its_second_run()
        done = self.compare("-p", "0", "-n", "8", "-t", "1,2,3", "--rounds",
                            "1", "--json", "out.json", "--svg", "out.svg")
        self.assert_one_error(done, b"exit code 3: why")
        self.assertIn(b"| tg8 | 1 | 30.00", done.stdout)
        self.assertEqual(done.stdout.count(b"tg8"), 1)
        calls = (self.folder / "calls.txt").read_text()
        self.assertNotIn("-t 3", calls)
        report = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(len(report["rows"]), 1)
        self.assertTrue((self.folder / "out.svg").exists())

    def test_a_failure_keeps_the_rounds_before(self):
        self.peer_fails_its_second_run()
        done = self.compare("-p", "0", "-n", "8", "-t", "1", "--rounds", "9")
        self.assert_one_error(done, b"exit code 3: why")
        self.assertIn(b"| 1.50 | 1.50..1.50 | 15.00 | 75.0 | 1 of 1 |",
                      done.stdout)

    def test_outputs_are_tried_before_anything_is_measured(self):
        for flag in ("--json", "--svg"):
            done = self.compare("-p", "0", "-n", "8", flag, "none/out")
            self.assert_one_error(done, b"none/out: No such file")
            self.assertFalse((self.folder / "calls.txt").exists())
        # What is there stays until there is something to write.
        (self.folder / "peer").unlink()
        (self.folder / "old.json").write_text("old")
        self.compare("-p", "0", "-n", "8", "--json", "old.json", "--svg",
                     "new.svg")
        self.assertEqual((self.folder / "old.json").read_text(), "old")
        self.assertFalse((self.folder / "new.svg").exists())

    def test_the_peer_may_have_a_file_of_its_own(self):
        done = self.compare("-p", "0", "-n", "8", "-t", "1", "--rounds", "1",
                            "--peer-model", "other.gguf")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = (self.folder / "calls.txt").read_text()
        self.assertIn("./peer -m other.gguf", calls)
        self.assertIn("./ours bench -m m.gguf", calls)

    def test_ends_on_a_machine_that_stays_busy(self):
        for more, text in (((), b"| 3 of 8 |"),
                           (("--most-rounds", "5"), b"| 3 of 5 |")):
            self.probes(*[20] * 3, 9)
            done = self.compare("-p", "0", "-n", "8", "-t", "1", "--rounds",
                                "4", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(text, done.stdout)

    def test_failures_name_the_program(self):
        (self.folder / "peer").write_text("#!/bin/sh\necho nonsense\n")
        done = self.compare("-p", "0", "-n", "8", "--rounds", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"./peer", done.stderr.splitlines()[-1])
        self.assertIn(b"prints no JSON", done.stderr)
        (self.folder / "peer").write_text("#!/bin/sh\necho why >&2; exit 3\n")
        done = self.compare("-p", "0", "-n", "8", "--rounds", "1")
        self.assertIn(b"exit code 3: why", done.stderr)
        (self.folder / "peer").unlink()
        done = self.compare("-p", "0", "-n", "8", "--rounds", "1")
        self.assertIn(b"No such file", done.stderr)
        self.assertNotIn(b"Traceback", done.stderr)

    def test_refuses_wrong_usage(self):
        for args in (["-p", "0", "-n", "0"], ["-p", "-4"], ["--rounds", "0"],
                     ["--rounds", "4", "--most-rounds", "3"]):
            self.assertEqual(self.compare(*args).returncode, 2, args)

    def test_ours_prints_what_it_reads(self):
        """Our own program on both sides, but for a flag that only peers have."""
        peer = self.folder / "peer"
        peer.write_text('#!/bin/sh\nexec "$PROGRAM" bench '
                        '$(echo "$*" | sed "s/-ub 32//")\n')
        done = subprocess.run(
            [sys.executable, str(ROOT / "bench/compare.py"), "--ours", PROGRAM,
             "--peer", str(peer), "-m", GOLDEN, "-p", "16", "-n", "4", "-t",
             "1", "-d", "8", "-b", "32", "--rounds", "1"],
            env={**os.environ, "PROGRAM": PROGRAM}, capture_output=True,
            timeout=WAIT_LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"| pp16 @ d8 | 1 |", done.stdout)
        self.assertEqual(done.stdout.count(b"| in cache |"), 2)
        self.assertIn(b"1 thread, round 1", done.stderr)


class StatisticsTest(unittest.TestCase):
    def test_quartiles(self):
        self.assertEqual(compare.quartiles([2.0]), (2.0, 2.0))
        self.assertEqual(compare.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]),
                         (2.0, 4.0))

    def test_names_are_escaped_in_charts(self):
        row = {"ratio": 0.5, "ratio_min": 0.4, "ratio_max": 0.6}
        chart = compare.bar_chart([("a<b", row)], "x & y")
        self.assertIn("a&lt;b", chart)
        self.assertIn("x &amp; y", chart)


if __name__ == "__main__":
    unittest.main()
