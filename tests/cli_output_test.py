#!/usr/bin/env python3
"""Output files that are standard output itself."""

import pathlib

import cli_support
from cli_support import CliTest, DATA, GOLDEN, STORIES, run

SPARSE = str(DATA / "golden-powerinfer/bamboo-f16.powerinfer.gguf")
VALID = DATA / "demo/valid.txt"


class StandardOutputTest(CliTest):

    def assert_alone_on_standard_output(self, told, *args):
        """What `-o` names gets the same bytes as a file, and nothing else."""
        path = self.folder / "output"
        self.assert_ok(run(*args, "-o", path))
        result = run(*args, "-o", "/dev/stdout")
        self.assertEqual(self.assert_ok(result), path.read_bytes())
        self.assertIn(told, result.stderr)
        again = self.folder / "again"
        with open(again, "wb") as file:
            self.assert_ok(run(*args, "-o", "/dev/stdout", stdout=file))
        self.assertEqual(again.read_bytes(), path.read_bytes())

    def test_quantize(self):
        self.assert_alone_on_standard_output(
            b"wrote /dev/stdout", "quantize", GOLDEN, "Q8_0")

    def test_synth(self):
        self.assert_alone_on_standard_output(
            b"wrote /dev/stdout", "synth", "--like", "tiny")

    def test_trace(self):
        prompts = self.write("prompts", b"Once upon a time\n")
        self.assert_alone_on_standard_output(
            b"wrote /dev/stdout", "trace", "-m", SPARSE, "-f", prompts, "-n", 4)

    def test_profile(self):
        text = self.write("text", VALID.read_bytes()[:6000])
        self.assert_alone_on_standard_output(
            b"locality", "profile", SPARSE, "--corpus", text, "-c", 32)

    def test_eval_mc(self):
        task = self.write("task.jsonl", b'{"query": "Tim has a", "choices": '
                          b'["dog", "cat"], "gold": 0}\n')
        self.assert_alone_on_standard_output(
            b"acc_norm", "eval", "mc", "-m", STORIES, "-f", task)

    def test_page_and_json_of_inspect(self):
        page = self.folder / "page.html"
        self.assert_ok(run("inspect", GOLDEN, "--html", page))
        result = run("inspect", GOLDEN, "--html", "/dev/stdout", "--json")
        self.assertEqual(self.assert_ok(result), page.read_bytes())
        self.assertIn(b'"architecture"', result.stderr)

    def test_goes_behind_what_a_log_holds(self):
        log = pathlib.Path(self.write("log", b"precious\n"))
        with open(log, "ab") as file:
            self.assert_ok(run("eval", "logits", "-m", GOLDEN, "--tokens", 1,
                               "-o", "/dev/stdout", stdout=file))
        self.assertEqual(log.read_bytes()[:9], b"precious\n")
        self.assertEqual(len(log.read_bytes()), 9 + 320 * 4)


if __name__ == "__main__":
    cli_support.main()
