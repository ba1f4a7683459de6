#!/usr/bin/env python3
"""End-to-end tests of `thermocline synth`: the models run, fire as asked, and
write the words that they must."""

import json
import unittest

import cli_support
from cli_support import CliTest, run


class SynthTest(CliTest):

    def synth(self, like, *flags):
        output = self.folder / f"{like}.gguf"
        text = self.folder / f"{like}.txt"
        self.assert_ok(run("synth", "--like", like, "-o", output, "--text",
                           text, *flags))
        return output, text

    def test_profile_finds_what_was_asked_for(self):
        model, text = self.synth("tiny", "--density", 0.15, "--skew", 0.3,
                                 "--locality", 0.7, "--seed", 5)
        report = json.loads(self.assert_ok(run(
            "profile", model, "--corpus", text, "--json", "-o",
            self.folder / "tiny.profile")))
        self.assertAlmostEqual(report["density"], 0.15, delta=0.015)
        self.assertAlmostEqual(report["skew"], 0.3, delta=0.03)
        self.assertAlmostEqual(report["locality"], 0.7, delta=0.05)

    def test_all_layouts_write_the_same_words(self):
        words = {}
        twin = self.folder / "twin.gguf"
        for like in ("tiny", "tiny-falcon"):
            model, text = self.synth(like, "--powerinfer", twin)
            plain = self.folder / "plain.gguf"
            self.assert_ok(run("synth", "--like", like, "--plain", "-o", plain))
            start = text.read_text().split()[:20]
            for path in (model, plain, twin):
                for mode in ("dense", "auto"):
                    with self.subTest(like=like, path=path, mode=mode):
                        said = self.assert_ok(run(
                            "run", "-m", path, "-p", " ".join(start[:5]), "-n",
                            15, "--temp", 0, "--ffn", mode)).decode().split()
                        self.assertEqual(said, start[5:])

    def test_experts_have_predictors(self):
        model, text = self.synth("tiny-mixtral", "--words", 300)
        start = text.read_text().split()[:20]
        for mode, shown in (("auto", b"fast (trained"), ("exact", b"exact, "),
                            ("dense", b"dense, ")):
            with self.subTest(mode=mode):
                result = run("run", "-m", model, "-p", " ".join(start[:5]),
                             "-n", 15, "--temp", 0, "--ffn", mode)
                said = self.assert_ok(result).decode().split()
                self.assertEqual(said, start[5:])
                self.assertIn(shown, result.stderr)
        report = json.loads(self.assert_ok(run(
            "eval", "sparsity", "-m", model, "-f", text, "-c", 64, "--json")))
        self.assertGreater(report["recall"], 0.97)
        self.assertLess(report["candidates_per_active"], 1.8)

    def test_everything_shows_that_it_is_synthetic(self):
        model, _ = self.synth("tiny-mixtral")
        shown = self.assert_ok(run("inspect", model)).decode()
        self.assertIn("synthetic like tiny-mixtral", shown)
        result = run("run", "-m", model, "-p", "a", "-n", 1)
        self.assert_ok(result)
        self.assertIn(b", synthetic model\n", result.stderr)
        # Records are of a type, and hold weights.
        shown = self.assert_ok(run("bench", "-m", model, "-p", 0, "-n", 2,
                                   "-r", 1, "-t", 1)).decode()
        self.assertRegex(shown, r"synthetic llama [\d.]+ M Q4_0 ")

    def test_the_same_flags_give_the_same_bytes(self):
        first = self.synth("tiny", "-t", 1)[0].read_bytes()
        second = self.synth("tiny", "-t", 2)[0].read_bytes()
        self.assertEqual(first, second)

    def test_experts_and_topics_are_the_same_for_every_thread_count(self):
        flags = ["--topics", 2, "--expert-skew", 0.5, "--expert-locality", 0.6,
                 "--for-storage"]
        first = self.synth("tiny-moe", "-t", 1, *flags)[0].read_bytes()
        second = self.synth("tiny-moe", "-t", 2, *flags)[0].read_bytes()
        self.assertEqual(first, second)
        self.assertNotEqual(first, self.synth(
            "tiny-moe", "--for-storage")[0].read_bytes())

    def test_lines_are_prompts(self):
        model, text = self.synth("tiny", "--words", 100, "--text-lines", 32)
        self.assertEqual([len(line.split()) for line in
                          text.read_text().splitlines()], [32, 32, 32, 4])
        row, = json.loads(self.assert_ok(run(
            "bench", "-m", model, "-f", text, "-pg", "32,2", "-r", 1, "-t", 1,
            "-o", "json")))
        self.assertEqual(row["num_prompts"], 3)
        self.assert_fails(run("synth", "--like", "tiny", "-o", model,
                              "--text-lines", 8), "--text", code=2)

    def test_refusals(self):
        output = self.folder / "no.gguf"
        self.assert_fails(run("synth", "--like", "tiny-opt", "--type", "q4_k",
                              "-o", output), "too narrow", code=2)
        self.assert_fails(run("synth", "--like", "tiny", "--locality", 0.1,
                              "-o", output), "a locality of 0.1",
                          "is not possible", code=2)
        self.assert_fails(run("synth", "--like", "tiny-mixtral", "-o", output,
                              "--powerinfer", self.folder / "p.gguf"),
                          "runs no experts", code=2)
        self.assertEqual(self.leftovers(), [])


if __name__ == "__main__":
    cli_support.main()
