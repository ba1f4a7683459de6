#!/usr/bin/env python3
"""End-to-end tests of `thermocline bench -np`: sequences that generate
together."""

import csv
import io
import json
import unittest

import cli_support
from cli_support import DEMO, CliTest, run


class BenchSequencesTest(CliTest):
    ARGS = ["bench", "-m", DEMO, "-r", 1, "-t", 2, "-np", "1,4"]

    def test_more_sequences_share_the_weights(self):
        rows = json.loads(self.assert_ok(run(
            *self.ARGS, "-n", 8, "-o", "json")))
        one, four = rows
        self.assertEqual([row["test"] for row in rows], ["pp16+tg8"] * 2)
        self.assertEqual([row["num_sequences"] for row in rows], [1, 4])
        self.assertEqual(one["kv_bytes_per_token"], four["kv_bytes_per_token"])
        # A row of the embedding each, if anything, comes to the weights.
        self.assertAlmostEqual(four["weight_bytes_per_pass"],
                               one["weight_bytes_per_pass"],
                               delta=0.01 * one["weight_bytes_per_pass"])
        self.assertLess(four["bytes_per_token"], one["bytes_per_token"] / 3)
        self.assertAlmostEqual(four["each_ts"] * 4, four["median_ts"], places=6)

    def test_rows_of_every_format(self):
        prompts = self.write("prompts.txt", b"Tom had a red ball.\nThe cat\n")
        args = [*self.ARGS, "-f", prompts, "-pg", "0,4"]
        rows = list(csv.DictReader(io.StringIO(
            self.assert_ok(run(*args, "-o", "csv")).decode())))
        self.assertEqual([row["num_sequences"] for row in rows], ["1", "4"])
        for row in rows:
            self.assertNotIn(None, row)
            self.assertEqual(row["num_passes"], "3")
        table = self.assert_ok(run(*args)).decode()
        self.assertIn("prompts+tg4, np 4, 2 threads: 2 of 2 prompts, so that "
                      "sequences repeat them", table)

    def test_unions_of_a_sparse_model(self):
        model = self.folder / "tiny.gguf"
        text = self.folder / "tiny.txt"
        self.assert_ok(run("synth", "--like", "tiny", "-o", model, "--text",
                           text, "--words", 256, "--text-lines", 32))
        for mode in ("fast", "exact"):
            rows = json.loads(self.assert_ok(run(
                "bench", "-m", model, "-t", 1, "-r", 1, "-f", text, "-pg",
                "32,16", "-np", "1,4", "--ffn", mode, "-o", "json")))
            with self.subTest(mode=mode):
                one, four = rows
                self.assertEqual(one["union_open_share"], one["open_share"])
                self.assertAlmostEqual(four["open_share"], 0.1, delta=0.05)
                # Chance alone: 1 - 0.9^4, less what the skew makes alike.
                self.assertGreater(four["union_open_share"],
                                   1.5 * four["open_share"])
                self.assertLess(four["union_open_share"], 0.36)
                self.assertLess(four["bytes_per_token"],
                                one["bytes_per_token"])

    def test_refusals(self):
        self.assert_fails(run(*self.ARGS, "-np", 0), "-np, -npl, --parallel",
                          code=2)
        self.assert_fails(run(*self.ARGS, "-d", 16), "has no effect with -np",
                          code=2)
        self.assert_fails(run("bench", "-m", DEMO, "-np", 512, "--ram",
                              "64M"), "512 sequences of 80 positions each",
                          "needed")


if __name__ == "__main__":
    cli_support.main()
