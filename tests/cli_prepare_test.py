#!/usr/bin/env python3
"""`thermocline train` and `prepare`, as a user runs them."""

import os
import pathlib
import re
import signal

import cli_support
from cli_support import DATA, IS_SANITIZED, ROOT, STORIES, run, start

DEMO = str(ROOT / "models/demo/thermocline-demo-8.8m-f16.gguf")
VALID = DATA / "demo/valid.txt"
# Little text and a short training: seconds, and far from the best.
QUICK = ("-c", 32, "-n", 4096, "--steps", 20, "-t", 2)


class PrepareTest(cli_support.CliTest):

    def prepare(self, *args):
        return run("prepare", DEMO, "--corpus", VALID, *QUICK, *args)

    def test_a_model_that_runs_sparsely(self):
        output = self.folder / "demo.tc.gguf"
        text = self.assert_ok(self.prepare("-o", output)).decode()
        rows = re.findall(r"^ +\d +\d+ +[\d.]+ KiB +([\d.]+) +([\d.]+) ", text,
                          re.MULTILINE)
        self.assertEqual(len(rows), 12, text)  # trained and training-free
        for share, recall in rows:
            self.assertLessEqual(float(share), 10)
            self.assertGreaterEqual(float(recall), 96.5)
        self.assertEqual(self.leftovers(), ["demo.tc.gguf"])
        values = {}
        for mode in ("dense", "exact", "fast"):
            shown = self.assert_ok(
                run("eval", "ppl", "-m", output, "-f",
                    self.write("text", VALID.read_bytes()[:8000]), "-c", 64,
                    "--ffn", mode, "-t", 2)).decode()
            values[mode] = float(re.search(r"perplexity: ([\d.]+)", shown)[1])
        self.assertAlmostEqual(values["exact"] / values["dense"], 1, delta=1e-3)
        self.assertAlmostEqual(values["fast"] / values["dense"], 1, delta=0.05)

    def test_train_and_prepare_apart_give_the_same_predictors(self):
        trained = self.folder / "demo.pred.gguf"
        self.assert_ok(run("train", DEMO, "--corpus", VALID, *QUICK, "-o",
                           trained))
        apart = self.folder / "apart.gguf"
        self.assert_ok(run("prepare", DEMO, "--predictors", trained, "-o",
                           apart))
        whole = self.folder / "whole.gguf"
        self.assert_ok(self.prepare("-o", whole))
        self.assertEqual(apart.read_bytes(), whole.read_bytes())

    def test_the_same_bytes_after_a_kill(self):
        whole = self.folder / "whole.gguf"
        self.assert_ok(self.prepare("-o", whole))
        output = self.folder / "demo.tc.gguf"
        work = pathlib.Path(f"{output}.work")
        # Killed as soon as the file of each stage is there.
        for stage in ("description.txt", "scan.gguf", "layer-0.gguf",
                      "layer-4.gguf"):
            process = start("prepare", DEMO, "--corpus", VALID, *QUICK, "-o",
                            output)
            while not (work / stage).exists():
                self.assertIsNone(process.poll())
            process.kill()
            process.communicate()
            self.assertFalse(output.exists())
        other = self.prepare("-o", output, "--seed", 3)
        self.assert_fails(other, f"{output}.work", "seed: 0", "seed: 3")
        done = self.assert_ok(self.prepare("-o", output))
        self.assertIn(b"went on from an interrupted run", done)
        self.assertEqual(output.read_bytes(), whole.read_bytes())
        self.assertFalse(work.exists())

    def test_an_interrupt_keeps_what_is_done(self):
        output = self.folder / "demo.tc.gguf"
        work = pathlib.Path(f"{output}.work")
        process = start("prepare", DEMO, "--corpus", VALID, *QUICK, "-o",
                        output)
        while not (work / "layer-0.gguf").exists():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=cli_support.WAIT_LIMIT_S)
        self.assertEqual(process.returncode, 130)
        self.assertIn("layer-0.gguf", os.listdir(work))
        self.assertFalse(output.exists())


class PrepareErrorsTest(cli_support.CliTest):

    def test_a_corpus_that_is_too_small(self):
        text = self.write("text", b"Once upon a time.")
        self.assert_fails(
            run("prepare", DEMO, "--corpus", text, "-o", self.folder / "x"),
            text, "too few to learn from")
        self.assertEqual(self.leftovers(), ["text"])

    def test_a_model_without_zeros(self):
        output = self.folder / "x"
        self.assert_fails(
            run("prepare", STORIES, "--corpus", VALID, "-c", 32, "-o", output),
            "100.0 % of the neurons fire", "--density", "--ppl-cost")

    def test_thresholds_for_a_density(self):
        output = self.folder / "silu.tc.gguf"
        text = self.assert_ok(
            run("prepare", STORIES, "--corpus", VALID, "-c", 32, "-n", 4096,
                "--density", "0.5", "-o", output)).decode()
        self.assertIn("thresholds for a density of 50.0 %", text)
        shown = self.assert_ok(
            run("eval", "ppl", "-m", output, "-f",
                self.write("text", VALID.read_bytes()[:4000]), "-c", 64,
                "--ffn", "threshold")).decode()
        self.assertIn("perplexity", shown)

    def test_an_output_that_is_an_input(self):
        for victim in (DEMO, VALID):
            self.assert_fails(
                run("prepare", DEMO, "--corpus", VALID, "-o", victim),
                str(victim))

    def test_predictors_of_another_model(self):
        if IS_SANITIZED:
            self.skipTest("trains a model for one message")
        trained = self.folder / "p.gguf"
        self.assert_ok(run("train", DEMO, "--corpus", VALID, *QUICK, "-o",
                           trained))
        self.assert_fails(
            run("prepare", STORIES, "--predictors", trained, "-o",
                self.folder / "x"), str(trained), "layers")


if __name__ == "__main__":
    cli_support.main()
