#!/usr/bin/env python3
"""End-to-end tests of `thermocline bench -f`: real prompts, and what the model
makes of them."""

import csv
import io
import json
import unittest

import cli_support
from cli_support import DEMO, CliTest, run


class BenchPromptsTest(CliTest):
    PROMPTS = ("Once upon a time there was a little girl named Lily. She loved "
               "to play outside in the park with her friends.\n"
               "Tom had a red ball. He gave it to the small dog.\n"
               "The cat\n")
    ARGS = ["bench", "-m", DEMO, "-r", 2, "-t", 2]

    def setUp(self):
        super().setUp()
        self.prompts = self.write("prompts.txt", self.PROMPTS.encode())

    def test_what_is_written_is_what_run_says(self):
        """The tokens are those of `run` at temperature 0."""
        tokens = self.folder / "tokens.csv"
        rows = json.loads(self.assert_ok(run(
            *self.ARGS, "-f", self.prompts, "-pg", "0,12", "-o", "json",
            "--tokens-csv", tokens)))
        self.assertEqual([row["test"] for row in rows], ["prompts+tg12"])
        self.assertEqual(rows[0]["num_prompts"], 3)
        lines = list(csv.DictReader(io.StringIO(tokens.read_text())))
        self.assertEqual({line["line"] for line in lines}, {"1", "2", "3"})
        for number, prompt in enumerate(self.PROMPTS.splitlines(), 1):
            runs = {}
            for line in lines:
                if line["line"] == str(number):
                    runs.setdefault(line["repetition"], []).append(line)
            self.assertGreaterEqual(len(runs), 2)
            said = {tuple(line["token"] for line in one)
                    for one in runs.values()}
            self.assertEqual(len(said), 1)
            self.assertEqual({len(one) for one in runs.values()}, {12})
            first = next(iter(runs.values()))
            self.assertEqual(first[0]["bytes"], "")
            self.assertTrue(all(int(line["bytes"]) > 10 ** 7
                                for line in first[1:]))
            text = self.assert_ok(run(
                "tokenize", "-m", DEMO, "--decode", stdin=" ".join(
                    said.pop()).encode()))
            self.assertEqual(text.strip(), self.assert_ok(run(
                "run", "-m", DEMO, "-p", prompt, "-n", 12, "--temp", 0,
                "--ignore-eos")).strip())

    def test_rows_of_every_format(self):
        args = [*self.ARGS, "-f", self.prompts, "-pg", "8,4", "-pg", "20,4"]
        rows = list(csv.DictReader(io.StringIO(
            self.assert_ok(run(*args, "-o", "csv")).decode())))
        self.assertEqual([row["test"] for row in rows], ["pp8+tg4", "pp20+tg4"])
        self.assertEqual([row["num_prompts"] for row in rows], ["2", "1"])
        for row in rows:
            self.assertNotIn(None, row)
            self.assertGreater(float(row["median_ts"]), 0)
            self.assertLess(float(row["response_ts"]), 1.5 *
                            float(row["median_ts"]))
        table = self.assert_ok(run(*args)).decode()
        self.assertIn("pp20+tg4, 2 threads: 1 of 3 prompts, those of 20 tokens "
                      "and more; ends of text are never chosen", table)

    def test_shares_of_a_sparse_model(self):
        model = self.folder / "tiny.gguf"
        text = self.folder / "tiny.txt"
        self.assert_ok(run("synth", "--like", "tiny", "-o", model, "--text",
                           text, "--words", 64))
        row, = json.loads(self.assert_ok(run(
            "bench", "-m", model, "-t", 1, "-r", 1, "-f", text, "-pg", "16,16",
            "-o", "json")))
        self.assertTrue(row["is_sparse"])
        self.assertAlmostEqual(row["open_share"], 0.1, delta=0.05)
        self.assertGreater(row["candidate_share"], row["open_share"])
        dense, = json.loads(self.assert_ok(run(
            "bench", "-m", model, "-t", 1, "-r", 1, "-f", text, "-pg", "16,16",
            "-o", "json", "--ffn", "dense")))
        self.assertLess(row["bytes_per_token"], dense["bytes_per_token"])

    def test_refusals(self):
        empty = self.write("empty.txt", b"\n")
        self.assert_fails(run(*self.ARGS, "-f", empty), "empty.txt",
                          "holds no prompt")
        self.assert_fails(run(*self.ARGS, "-f", self.prompts, "-pg", "200,4"),
                          "no prompt is long enough", "in line 1")
        self.assert_fails(run(*self.ARGS, "-f", self.prompts, "-pg",
                              "8,100000"), "100008 positions")
        self.assert_fails(run(*self.ARGS, "-f", self.prompts, "-pg", "8,0"),
                          "G is at least 2", code=2)
        self.assert_fails(run(*self.ARGS, "-pg", "8,4"), "goes with -f", code=2)
        self.assert_fails(run(*self.ARGS, "-f", self.prompts, "--tokens-csv",
                              self.prompts), "prompts.txt")


if __name__ == "__main__":
    cli_support.main()
