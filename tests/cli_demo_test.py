#!/usr/bin/env python3
"""End-to-end tests with the model in models/, against figures of the framework
that trained it."""

import json
import unittest

import cli_support
from cli_support import (CliTest, DATA, DEMO, DEMO_FOLDER,
                         floats, nmse, run)


class DemoTest(CliTest):
    """The trained model in models/, and what its checkpoint becomes."""

    @classmethod
    def setUpClass(cls):
        cls.reference = json.loads((DATA / "demo/reference.json").read_text())

    def convert(self, dtype):
        path = self.folder / f"demo-{dtype}.gguf"
        self.assert_ok(run("convert", DEMO_FOLDER, "-o", path, "--type",
                           dtype))
        return path

    def test_perplexity(self):
        result = json.loads(self.assert_ok(
            run("eval", "ppl", "-m", DEMO, "-f", DATA / "demo/valid.txt",
                "-c", 256, "--json")))
        want = self.reference["valid.txt"]
        self.assertEqual(result["chunks"], want["chunks"])
        self.assertEqual(result["predictions"], 127 * want["chunks"])
        self.assertAlmostEqual(
            result["perplexity"] / want["ppl_second_half"], 1.0, delta=0.002)

    def test_first_ids(self):
        ids = [int(i) for i in self.assert_ok(
            run("tokenize", "-m", DEMO, "--parse-special",
                stdin=(DATA / "demo/valid.txt").read_bytes())).split()]
        want = self.reference["valid.txt"]
        self.assertEqual(len(ids), want["tokens"])
        self.assertEqual(ids[:len(want["first_ids"])], want["first_ids"])

    def test_greedy_story(self):
        greedy = self.reference["greedy"]
        prompt = greedy["prompt_with_leading_endoftext"]
        out = self.assert_ok(run("run", "-m", DEMO, "-p",
                                 "<|endoftext|>" + prompt, "--temp", 0))
        self.assertEqual((prompt + out.decode()).strip(),
                         greedy["text"].strip())

    @unittest.skipUnless(DEMO_FOLDER.exists(), f"needs {DEMO_FOLDER}")
    def test_f32_logits(self):
        logits = self.reference["logits"]
        out = self.folder / "logits.f32"
        self.assert_ok(run("eval", "logits", "-m", self.convert("f32"),
                           "--tokens", ",".join(map(str, logits["tokens"])),
                           "-o", out))
        self.assertLessEqual(
            nmse(floats(out.read_bytes()),
                 floats((DATA / "demo/reference_logits.f32").read_bytes())),
            1e-6)

    @unittest.skipUnless(DEMO_FOLDER.exists(), f"needs {DEMO_FOLDER}")
    def test_every_type_converts_and_runs(self):
        for dtype in ("f32", "f16", "bf16", "q8_0", "q4_0"):
            report = json.loads(self.assert_ok(
                run("inspect", self.convert(dtype), "--json")))
            self.assertTrue(report["runs"], report["reason"])
            self.assertEqual(report["quantisation"]["ffn"][0]["type"].lower(),
                             dtype)


if __name__ == "__main__":
    cli_support.main()
