#!/usr/bin/env python3
"""Runs that write traces of themselves, and what simulations say of them."""

import json
import re

import cli_support
from cli_support import STORIES, run

COUNTS = re.compile(r"(\d+) of (\d+) hits, (\d+) admitted, (\d+) moved, "
                    r"(\d+) wasted")


class RunTraceTest(cli_support.CliTest):
    """`simulate` of a deterministic run's own trace is what the run did."""

    def made(self, shape, *flags):
        """A model and the beginning of its text, in quotes that mean nothing."""
        model = self.folder / f"{shape}{len(flags)}.gguf"
        text = self.folder / "text.txt"
        self.assert_ok(run("synth", "--like", shape, "-o", model, "--text",
                           text, "--words", 300, *flags))
        return model, text.read_text()

    def command(self, model, prompt, *flags):
        return ["run", "-m", model, "-p", prompt, "-n", 20, "--temp", 0,
                "--ignore-eos", "-t", 1, "-c", 256, *flags]

    def least(self, *command):
        """The least budget in KiB, which a refusal says."""
        refused = run(*command, "--ram", "10KiB").stderr.decode()
        found = re.search(r"at least ([\d.]+) MiB are needed", refused)
        self.assertTrue(found, refused)
        return int((float(found[1]) + 0.01) * 1024) + 1

    def traced(self, command):
        """What the run says of itself, and what its simulation does."""
        trace = self.folder / "run.trace"
        result = run(*command, "--deterministic", "--trace-to", trace)
        self.assert_ok(result)
        says = result.stderr.decode()
        self.assertRegex(says, r"wrote \S+: \d+ tokens, 19 generated: ")
        policy = command[command.index("--balance") + 1]
        simulate = ["simulate", trace, "--deterministic", "--policy", policy]
        told = self.assert_ok(run(*simulate)).decode()
        shown = json.loads(self.assert_ok(run(*simulate, "--json")))
        self.assertTrue(shown["is_of_run"])
        counts = shown["policies"][0]
        found = [counts[key] for key in ("hits", "accesses", "admissions",
                                         "moves", "wasted")]
        self.assertEqual([int(count) for count in
                          COUNTS.search(told).groups()], found)
        return [int(count) for count in COUNTS.search(says).groups()], found

    def test_hits_and_moves_are_the_runs(self):
        dense, dense_text = self.made("tiny-falcon", "--type", "f32")
        mixture, text = self.made("tiny-moe")
        plain, plain_text = self.made("tiny-moe", "--plain")
        # Of a prompt that comes in one pass, of more than 64 rows, and in many.
        cases = [(dense, 900, dense_text[:500], "-b", 256),
                 (dense, 900, dense_text[:160], "-b", 7, "-t", 2),
                 (mixture, 250, text[:300], "-b", 32, "--unit", "records"),
                 (mixture, 250, text[:300], "-b", 32, "--unit", "experts"),
                 (plain, 250, plain_text[:300], "-b", 9)]
        num_moves = 0
        policies = ("slow", "lru", "momentum:adapt=off,lambda=0.8", "window",
                    "macro-micro")
        for i, (model, step, prompt, *flags) in enumerate(cases):
            command = self.command(model, prompt, *flags)
            least = self.least(*command, "--trace-to", self.folder / "x")
            for j, policy in enumerate(policies):
                if (i + j) % 2 == 1:
                    continue
                with self.subTest(model=model.name, flags=flags, policy=policy):
                    ram = f"{least + step * (j + 1)}KiB"
                    says, found = self.traced([*command, "--balance", policy,
                                               "--ram", ram])
                    self.assertEqual(says, found)
                    self.assertGreater(says[1], says[0])
                    num_moves += says[3]
        self.assertGreater(num_moves, 0)

    def test_a_trace_of_a_run_is_any_trace_too(self):
        """Its text is that of a run without one; shares change its room."""
        model, text = self.made("tiny-moe")
        trace = self.folder / "run.trace"
        command = self.command(model, text[:100], "-b", 16)
        want = self.assert_ok(run(*command))
        least = self.least(*command, "--trace-to", trace)
        self.assertEqual(self.assert_ok(run(
            *command, "--ram", f"{least + 900}KiB", "--trace-to", trace)), want)
        self.assertIn(b"tokens", self.assert_ok(run("trace", "--stats", trace)))
        for flags, share in (([], None), (["--share", 0.5], 0.5),
                             (["--unit", "neurons", "--share", 0.25], 0.25)):
            shown = json.loads(self.assert_ok(run(
                "simulate", trace, "--deterministic", "--policy", "lru",
                "--json", *flags)))
            self.assertEqual(len(shown["policies"]), 1)
            if share is not None:
                self.assertEqual(shown["policies"][0]["share"], share)
        # Each token is a pass: prompts count.
        plain = json.loads(self.assert_ok(run(
            "simulate", trace, "--policy", "lru", "--json")))
        self.assertFalse(plain["is_of_run"])
        self.assertEqual(len(plain["policies"]), 3)

    def test_a_model_in_memory_has_no_room_to_tell_of(self):
        trace = self.folder / "run.trace"
        command = ["run", "-m", STORIES, "-p", "Once", "-n", 4, "--temp", 0]
        result = run(*command, "--trace-to", trace)
        self.assertEqual(self.assert_ok(result), self.assert_ok(run(*command)))
        self.assertRegex(result.stderr.decode(), r"wrote \S+: \d+ tokens\n")
        shown = json.loads(self.assert_ok(run(
            "simulate", trace, "--deterministic", "--policy", "lru", "--json")))
        self.assertFalse(shown["is_of_run"])

    def test_what_cannot_be_traced(self):
        model, text = self.made("tiny-falcon", "--type", "f32")
        trace = self.folder / "run.trace"
        command = self.command(model, text[:50], "-b", 8, "--trace-to", trace)
        ram = f"{self.least(*command) + 1000}KiB"
        for flags in (["--prefill", "same"], ["--ffn", "dense"],
                      ["--isa", "scalar"]):
            self.assert_fails(run(*command, "--ram", ram, *flags),
                              "--trace-to", *flags)
            self.assertFalse(trace.exists())
        self.assert_fails(run("run", "-m", model, "-cnv", "--trace-to", trace),
                          "not a chat", code=2)
        self.assert_fails(run("run", "-m", model, "-p", "a", "--trace-to",
                              model), "is one of the files to read")


if __name__ == "__main__":
    cli_support.main()
