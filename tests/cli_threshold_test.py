#!/usr/bin/env python3
"""Thresholds for SiLU and GELU, from `prepare` to what they cost."""

import json
import re

import cli_support
from cli_support import DATA, DEMO, GOLDEN, STORIES, floats, nmse
from cli_support import run

VALID = DATA / "demo/valid.txt"
LAYERS, NEURONS = 5, 172
CHUNK = 64
NUM_BYTES = 8000  # enough to tell


def numbers(pattern, text):
    return [float(value) for value in re.findall(pattern, text, re.MULTILINE)]


def bytes_per_token(result):
    """What the summary of a run says."""
    value, unit = re.search(rb"tok/s +([\d.]+) ([KM])iB per token",
                            result.stderr).groups()
    return float(value) * {b"K": 1 << 10, b"M": 1 << 20}[unit]


class ThresholdTest(cli_support.CliTest):

    def setUp(self):
        super().setUp()
        self.text = self.write("text", VALID.read_bytes()[:NUM_BYTES])

    def prepare(self, name, *args, model=STORIES):
        """The file, what was printed, and the thresholds in it."""
        path = self.folder / name
        shown = self.assert_ok(
            run("prepare", model, "--corpus", self.text, "-c", CHUNK, "-t", 2,
                *args, "-o", path)).decode()
        facts = json.loads(self.assert_ok(run("inspect", "--json", path)))
        thresholds = facts["prepared"]["thresholds"]
        self.assertEqual(numbers(r"^ +\d +([\d.e-]+)$", shown),
                         [float(f"{x:.5g}") for x in thresholds])
        return path, shown, thresholds

    def sparsity(self, model, *args):
        return json.loads(self.assert_ok(
            run("eval", "sparsity", "-m", model, "-f", self.text, "-c", CHUNK,
                "-t", 2, "--ffn", "threshold", "--json", *args)))

    def logits(self, model, *args):
        out = self.folder / "logits"
        self.assert_ok(run("eval", "logits", "-m", model, "--tokens",
                           ",".join(map(str, range(1, 40))), "-o", out, *args))
        return floats(out.read_bytes())

    def test_a_profile_of_thresholds_that_let_all_through(self):
        path, _, _ = self.prepare("m", "--density", 0.99)
        self.assert_fails(
            run("profile", path, "--corpus", self.text, "-c", CHUNK, "-t", 2,
                "-o", self.folder / "profile"),
            "with the thresholds in the file", "lower --density")

    def test_the_density_that_was_asked_for(self):
        costs = []
        for density in (0.9, 0.5, 0.1):
            path, shown, thresholds = self.prepare("m", "--density", density)
            self.assertEqual(len(thresholds), LAYERS)
            self.assertIn(f"thresholds for a density of {100 * density:.1f} %",
                          shown)
            found = self.sparsity(path)
            self.assertEqual(found["mode"], "threshold")
            for layer in found["layers"]:
                self.assertAlmostEqual(layer["density"], density, delta=0.025)
                # All gates are computed, and nothing above is missed.
                self.assertEqual(layer["candidates"], 1)
                self.assertEqual(layer["recall"], 1)
            self.assertAlmostEqual(found["density"], density, delta=0.025)
            # F32: gate, and of those that are open up and down.
            self.assertAlmostEqual(found["bytes_share"],
                                   (1 + 2 * found["density"]) / 3, delta=0.01)
            costs.append(found["divergence"]["ratio"] - 1)
        self.assertLess(abs(costs[0]), 0.01)
        self.assertGreater(costs[-1], 1)
        self.assertEqual(costs, sorted(costs))

    def test_the_cost_that_was_allowed(self):
        last = 1.0
        for cost in (0.01, 0.1):
            path, shown, _ = self.prepare("m", "--ppl-cost", cost)
            density = numbers(r"^thresholds for a density of ([\d.]+) %",
                              shown)[0] / 100
            held_out, dense = re.search(
                r"^perplexity of held-out text ([\d.]+), dense ([\d.]+)",
                shown, re.MULTILINE).groups()
            # The least density, to 1/128, that costs no more.
            self.assertLessEqual(float(held_out) / float(dense) - 1,
                                 cost + 1e-4)
            self.assertLess(density, last)
            last = density
            # On all of the text, of which the search saw an eighth at most.
            found = self.sparsity(path)
            self.assertAlmostEqual(found["density"], density, delta=0.025)
            got = found["divergence"]["ratio"] - 1
            self.assertGreater(got, cost / 3)
            self.assertLess(got, 3 * cost)

    def test_the_file_runs(self):
        path, said, thresholds = self.prepare("m", "--density", 0.6)
        self.assertIn(f"run -m {path} --ffn threshold\n", said)
        shown = self.assert_ok(run("inspect", path)).decode()
        stated = re.search(r"thresholds +([\d.]+) to ([\d.]+)\n", shown)
        self.assertIsNotNone(stated, shown)
        self.assertAlmostEqual(float(stated[1]), min(thresholds), delta=6e-4)
        self.assertAlmostEqual(float(stated[2]), max(thresholds), delta=6e-4)
        tell = ("run", "-m", path, "-p", "Once upon a time", "-n", "40",
                "--temp", "0", "-t")
        told = run(*tell, "2", "--ffn", "threshold")
        self.assertTrue(self.assert_ok(told).startswith(b", there was a "))
        self.assertIn(b"threshold, prompts dense, ", told.stderr)
        self.assertEqual(run(*tell, "1", "--ffn", "threshold").stdout,
                         told.stdout)
        dense = run(*tell, "2")  # what costs something is asked for
        self.assertTrue(dense.stderr.startswith(b"dense, "), dense.stderr)
        self.assertLess(bytes_per_token(told), 0.9 * bytes_per_token(dense))
        row, = json.loads(self.assert_ok(
            run("bench", "-m", path, "-p", "0", "-n", "16", "-r", "1", "-t",
                "1", "--ffn", "threshold", "-o", "json")))
        self.assertEqual(row["ffn"], "threshold")
        self.assertEqual(row["candidate_share"], 1)
        self.assertAlmostEqual(row["open_share"], 0.6, delta=0.1)

    def test_the_profile_inside_counts_what_the_thresholds_leave(self):
        path, shown, _ = self.prepare("m", "--density", 0.3)
        inside = json.loads(self.assert_ok(run("profile", path, "--json")))
        counted = json.loads(self.assert_ok(
            run("profile", path, "--corpus", self.text, "-c", CHUNK, "-t", 2,
                "--json")))
        # Records are added up in another order: gates at the threshold differ.
        for layer, again in zip(inside["layers"], counted["layers"],
                                strict=True):
            for figure in ("density", "skew", "locality"):
                self.assertAlmostEqual(layer[figure], again[figure],
                                       delta=1e-3)
            self.assertAlmostEqual(layer["density"], 0.3, delta=0.025)
            self.assertLess(layer["skew"], 0.8)
        told, = numbers(r"^\d+ tokens: ([\d.]+) % of the neurons fire", shown)
        self.assertAlmostEqual(told, 30, delta=2.5)

    def test_what_must_not_change_the_result(self):
        """Threads, batches, and whether there are records."""
        path, _, thresholds = self.prepare("m", "--density", 0.5)
        want = self.logits(path, "--ffn", "threshold")
        for args in (("-t", 1), ("-t", 2, "-b", 7), ("-b", 1)):
            self.assertEqual(self.logits(path, "--ffn", "threshold", *args),
                             want)
        plain, _, same = self.prepare("plain", "--density", 0.5, "--no-bundle")
        self.assertEqual(same, thresholds)
        self.assertLess(nmse(self.logits(plain, "--ffn", "threshold"), want),
                        1e-10)
        self.assertEqual(
            self.logits(plain, "--ffn", "threshold", "--bundle-at-load"), want)
        dense = self.logits(STORIES)
        self.assertLess(nmse(self.logits(path), dense), 1e-10)
        self.assertGreater(nmse(want, dense), 1e-3)
        # Nothing is below the smallest thresholds.
        path, _, _ = self.prepare("m", "--density", 0.99)
        self.assertLess(nmse(self.logits(path, "--ffn", "threshold"), dense),
                        1e-3)

    def test_quantised(self):
        small = self.folder / "q.gguf"
        self.assert_ok(run("quantize", STORIES, small, "Q8_0"))
        path, _, _ = self.prepare("m", "--density", 0.4, model=small)
        found = self.sparsity(path)
        self.assertAlmostEqual(found["density"], 0.4, delta=0.025)

    def test_gelu(self):
        """Without a gate the up row is what is tested."""
        model, text = self.folder / "f.gguf", self.folder / "f.txt"
        self.assert_ok(run("synth", "--like", "tiny-falcon", "--layers", 1,
                           "--type", "f16", "--plain", "--words", 1200,
                           "--text", text, "-o", model))
        self.text = text
        path, _, _ = self.prepare("m", "--ffn-act", "gelu", "--density", 0.3,
                                  model=model)
        self.assertEqual(self.sparsity(path)["mode"], "threshold")
        self.assertAlmostEqual(self.sparsity(path)["density"], 0.3, delta=0.03)


    def test_a_mixture(self):
        model, text = self.folder / "mixture.gguf", self.folder / "text"
        self.assert_ok(run("synth", "--like", "tiny-mixtral", "--layers", 1,
                           "--type", "f16", "--plain", "--words", 1200,
                           "--text", text, "-o", model))
        path = self.folder / "m"
        self.assert_ok(run(
            "prepare", model, "--ffn-act", "silu", "--corpus", text, "-c", 16,
            "--density", "0.5", "-o", path))
        found = self.assert_ok(run(
            "eval", "sparsity", "-m", path, "-f", text, "-c", 64, "--ffn",
            "threshold", "--json"))
        found = json.loads(found)
        # Of the two experts of four that a token uses.
        self.assertAlmostEqual(found["density"], 0.25, delta=0.01)
        self.assertAlmostEqual(found["candidates"], 0.5, delta=1e-6)
        self.assertEqual(found["recall"], 1)


class ThresholdErrorsTest(cli_support.CliTest):

    def test_a_model_that_needs_none(self):
        for flag in ("--density", "--ppl-cost"):
            self.assert_fails(
                run("prepare", DEMO, "--corpus", VALID, flag, "0.5", "-o",
                    self.folder / "x"), DEMO, "relu", "need no thresholds")
        self.assertEqual(self.leftovers(), [])
        self.assert_fails(run("run", "-m", DEMO, "-p", "a", "--ffn",
                              "threshold"), "relu", "--ffn exact")

    def test_a_file_without_thresholds(self):
        for command in (("run", "-m", STORIES, "-p", "a"),
                        ("bench", "-m", STORIES, "-n", "1"),
                        ("eval", "ppl", "-m", STORIES, "-f", VALID),
                        ("eval", "sparsity", "-m", STORIES, "-f", VALID)):
            self.assert_fails(run(*command, "--ffn", "threshold"),
                              "no thresholds", "'thermocline prepare'")
        self.assert_fails(run("run", "-m", GOLDEN, "-p", "a", "--ffn",
                              "threshold"), "no thresholds")

    def test_values_that_mean_nothing(self):
        for value in ("0", "1", "1.5", "nan", "inf", "-0.5", "half", ""):
            result = run("prepare", STORIES, "--corpus", VALID, "-o",
                         self.folder / "x", "--density", value)
            self.assert_fails(result, "--density", code=2)
        for value in ("0", "1.5", "nan", "-0.01"):
            result = run("prepare", STORIES, "--corpus", VALID, "-o",
                         self.folder / "x", "--ppl-cost", value)
            self.assert_fails(result, "--ppl-cost", code=2)
        self.assert_fails(
            run("prepare", STORIES, "--corpus", VALID, "-o",
                self.folder / "x", "--density", "0.5", "--ppl-cost", "0.1"),
            "--density", "--ppl-cost", code=2)
        self.assertEqual(self.leftovers(), [])


if __name__ == "__main__":
    cli_support.main()
