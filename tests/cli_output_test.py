#!/usr/bin/env python3
"""Output files that are standard output itself or what standard input comes
from, and interrupts before there is any output."""

import math
import os
import pathlib
import signal
import subprocess
import time

import cli_support
from cli_support import (CliTest, DATA, GOLDEN, PROGRAM, STORIES, WAIT_LIMIT_S,
                         run, start)

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


def cpu_seconds(process):
    """What it has computed so far; no end of it where it has ended."""
    stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2:].split()
    if fields[0] == "Z":
        return math.inf
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


class ControlCharacterTest(CliTest):
    """A file's name with an escape sequence in it."""

    def test_what_was_written(self):
        model = self.write("\x1b[31m.gguf", pathlib.Path(SPARSE).read_bytes())
        text = self.write("\x1b[32m.txt", VALID.read_bytes()[:6000])
        output = self.folder / "out\x1b[33m"
        for args in (("quantize", GOLDEN, output, "Q8_0"),
                     ("synth", "--like", "tiny", "-o", output),
                     ("inspect", model, "--html", output),
                     ("trace", "-m", model, "-f", text, "-o", output, "-n", 2,
                      "--limit", 1),
                     ("profile", model, "--corpus", text, "-c", 32, "-o",
                      output, "--html", self.folder / "page\x1b[34m")):
            with self.subTest(args[0]):
                result = run(*args)
                self.assert_ok(result)
                self.assertIn(b"wrote ", result.stdout + result.stderr)
                self.assertNotIn(b"\x1b", result.stdout + result.stderr)


class RedirectedInputTest(CliTest):
    """An output that standard input comes from, by '< FILE'."""

    def assert_spared(self, text, *args):
        path = pathlib.Path(self.write("input", text))
        with open(path, "rb") as file:
            result = subprocess.run(
                [PROGRAM, *map(str, args), "-o", str(path)], stdin=file,
                capture_output=True, timeout=WAIT_LIMIT_S, check=False)
        self.assert_fails(result, "is one of the files to read")
        self.assertEqual(path.read_bytes(), text)

    def test_trace(self):
        self.assert_spared(b"Once upon a time\n", "trace", "-m", SPARSE, "-f",
                           "-", "-n", 4)

    def test_profile(self):
        self.assert_spared(VALID.read_bytes()[:6000], "profile", SPARSE,
                           "--corpus", "-", "-c", 32)

    def test_eval_logits(self):
        self.assert_spared(b"1 2 3", "eval", "logits", "-m", GOLDEN,
                           "--tokens-file", "-")


class InterruptTest(CliTest):

    def test_while_a_text_becomes_tokens(self):
        story = VALID.read_bytes()
        text = self.write("long.txt", story * (30_000_000 // len(story)))
        output = self.folder / "output"
        for args in (("tokenize", "-m", STORIES, "-f"),
                     ("run", "-m", STORIES, "-c", 64, "-f"),
                     ("eval", "ppl", "-m", STORIES, "-f"),
                     ("profile", SPARSE, "-o", output, "--corpus"),
                     ("train", SPARSE, "-o", output, "-n", 1 << 24,
                      "--corpus")):
            with self.subTest(command=args[0]):
                process = start(*args, text)
                # Depends on speed: a small model is open by then, and so much
                # text takes seconds more.
                while cpu_seconds(process) < 0.3:
                    time.sleep(0.01)
                process.send_signal(signal.SIGINT)
                _, error = process.communicate(timeout=WAIT_LIMIT_S)
                self.assertEqual(process.returncode, 130, error)
        self.assertEqual(self.leftovers("long.txt"), [])


if __name__ == "__main__":
    cli_support.main()
