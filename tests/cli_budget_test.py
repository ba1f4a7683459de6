#!/usr/bin/env python3
"""Models larger than their budget of memory: the same answers, and no more."""

import contextlib
import json
import os
import pathlib
import re
import resource
import struct

import cli_support
from cli_support import DATA, DEMO, IS_SANITIZED, CliTest, run

MIB = 1 << 20
# What the program takes beside what a budget counts: its own code's data,
# stacks, the vocabulary, lists of tensors.
BESIDE = 24 * MIB


def write_hollow_model(path, num_layers, width):
    """A llama in F16 without a vocabulary, all zeros, in a file of holes."""

    def string(text):
        return struct.pack("<Q", len(text)) + text.encode()

    def number(key, value):
        kind = struct.pack("<If", 6, value) if isinstance(value, float) else (
            struct.pack("<II", 4, value))
        return string(key) + kind
    keys = [string("general.architecture") + struct.pack("<I", 8) +
            string("llama"),
            *(number(f"llama.{name}", value) for name, value in (
                ("block_count", num_layers), ("context_length", 256),
                ("embedding_length", width), ("feed_forward_length", 4 * width),
                ("attention.head_count", width // 128),
                ("attention.layer_norm_rms_epsilon", 1e-5)))]
    f32, f16 = 0, 1
    tensors = [("token_embd.weight", f16, (width, 64)),
               ("output_norm.weight", f32, (width,)),
               ("output.weight", f16, (width, 64))]
    for i in range(num_layers):
        tensors += [(f"blk.{i}.attn_norm.weight", f32, (width,)),
                    (f"blk.{i}.ffn_norm.weight", f32, (width,)),
                    *((f"blk.{i}.attn_{name}.weight", f16, (width, width))
                      for name in ("q", "k", "v", "output")),
                    (f"blk.{i}.ffn_gate.weight", f16, (width, 4 * width)),
                    (f"blk.{i}.ffn_up.weight", f16, (width, 4 * width)),
                    (f"blk.{i}.ffn_down.weight", f16, (4 * width, width))]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    head += b"".join(keys)
    at = 0
    for name, kind, shape in tensors:
        head += string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, at)
        num_bytes = 4 if kind == f32 else 2
        for extent in shape:
            num_bytes *= extent
        at += (num_bytes + 31) // 32 * 32
    with open(path, "wb") as file:
        file.write(head)
        file.truncate((len(head) + 31) // 32 * 32 + at)
    return pathlib.Path(path)


@contextlib.contextmanager
def limited_cgroup(num_bytes):
    """A function that moves its caller into a new cgroup of so much memory;
    None where none may be made."""
    made = None
    groups = pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii")
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            parent, limit = f"/sys/fs/cgroup{path}", "memory.max"
        elif "memory" in controllers.split(","):
            parent, limit = (f"/sys/fs/cgroup/memory{path}",
                             "memory.limit_in_bytes")
        else:
            continue
        group = pathlib.Path(parent) / f"thermocline-test-{os.getpid()}"
        try:
            group.mkdir()
            made = group
            (group / limit).write_text(str(num_bytes))
            with contextlib.suppress(OSError):  # a system without swap
                (group / "memory.swap.max").write_text("0")
            break
        except OSError:
            if made is not None:
                made.rmdir()
                made = None
    try:
        yield made and (lambda: (made / "cgroup.procs").write_text(
            str(os.getpid())))
    finally:
        if made is not None:
            made.rmdir()


class BudgetTest(CliTest):

    def least(self, *command):
        """The least budget in KiB, which a refusal says."""
        refused = run(*command, "--ram", "10KiB")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        found = re.search(r"at least ([\d.]+) MiB are needed",
                          refused.stderr.decode())
        self.assertTrue(found, refused.stderr)
        return int((float(found[1]) + 0.01) * 1024) + 1

    def test_every_command_answers_as_in_memory(self):
        text = self.folder / "text.txt"
        text.write_bytes((DATA / "demo/valid.txt").read_bytes()[:800])
        items = self.write("items.jsonl", b"".join(
            json.dumps({"query": query, "choices": [" cat", " in the park"],
                        "gold": 1}).encode() + b"\n"
            for query in ("She loved to play outside", "They ran")))
        prompts = self.write("prompts.txt", b"Once upon a time\nThe dog\n")
        model = ["-m", DEMO]
        for args in (["eval", "ppl", *model, "-f", text, "-c", 32],
                     ["eval", "mc", *model, "-f", items],
                     ["eval", "mc", *model, "-f", items, "--modes",
                      "dense,exact"],
                     ["eval", "kl", *model, "--base", DEMO, "-f", text, "-c",
                      32],
                     ["eval", "kl", *model, "--base-mode", "dense", "-f", text,
                      "-c", 32],
                     ["run", *model, "-p", "Once upon a time", "-n", 8,
                      "--temp", 0, "-c", 64, "-b", 8]):
            with self.subTest(args=args[:2] + args[4:]):
                want = self.assert_ok(run(*args))
                least = self.least(*args)
                more = [2000] if args[0] == "run" else []
                for ram in (least, *(least + size for size in more)):
                    result = run(*args, "--ram", f"{ram}KiB")
                    self.assertEqual(self.assert_ok(result), want)
                    self.assertRegex(
                        result.stderr.decode(), r", layers \d+ of \d+ in "
                        r"[\d.]+ \w+ and \d+ slots of [\d.]+ \w+, the rest from ")
        logits = ["eval", "logits", *model, "--tokens", "1,2,3", "--tokens",
                  "7,5", "--together", "-o"]
        self.assert_ok(run(*logits, self.folder / "want"))
        least = self.least(*logits, self.folder / "got")
        self.assert_ok(run(*logits, self.folder / "got", "--ram",
                           f"{least}KiB"))
        self.assertEqual((self.folder / "got").read_bytes(),
                         (self.folder / "want").read_bytes())
        for args in (["-p", 8, "-n", 3, "-r", 1],
                     ["-f", prompts, "-pg", "0,3", "-r", 1],
                     ["-np", "1,2", "-p", 4, "-n", 3, "-r", 1]):
            command = ["bench", *model, *args, "-o", "csv"]
            least = self.least(*command)
            self.assert_ok(run(*command, "--ram", f"{least}KiB"))

    def test_any_budget_above_the_least_does(self):
        """Sessions that are in memory together have their parts of it."""
        text = self.folder / "text.txt"
        text.write_bytes((DATA / "demo/valid.txt").read_bytes()[:400])
        items = self.write("items.jsonl", json.dumps(
            {"query": "They ran", "choices": [" cat", " in the park"],
             "gold": 1}).encode())
        out = self.folder / "out"
        model = ["-m", DEMO]
        for args in (["eval", "mc", *model, "-f", items, "--modes",
                      "dense,exact"],
                     ["eval", "kl", *model, "--base", DEMO, "-f", text, "-c",
                      32],
                     ["eval", "kl", *model, "--base-mode", "dense", "-f", text,
                      "-c", 32],
                     ["eval", "logits", *model, "--tokens", "1,2", "--tokens",
                      "7,5", "--together", "-c", 16, "-o", out]):
            with self.subTest(args=args[:2] + args[4:]):
                result = run(*args, "--ram", "1GiB")
                want = self.assert_ok(result) or out.read_bytes()
                whole = re.search(r"the weights: ([\d.]+) MiB",
                                  result.stderr.decode())
                whole = int((float(whole[1]) + 0.01) * 1024)
                self.assert_ok(run(*args, "--ram", f"{whole}KiB"))
                for ram in (whole - 25, whole * 3 // 4):
                    result = run(*args, "--ram", f"{ram}KiB")
                    got = self.assert_ok(result) or out.read_bytes()
                    self.assertEqual(got, want)
                    if args[1] == "logits":  # which says nothing of it
                        continue
                    self.assertIn(b", the rest from ", result.stderr)
                    shares = re.findall(rb", RAM ([\d.]+) MiB of ([\d.]+) MiB",
                                        result.stderr)
                    self.assertEqual(len(shares), 2)
                    for used, share in shares:
                        self.assertLessEqual(float(used), float(share))
                        self.assertLess(float(share), ram / 1024)

    def test_a_policy_of_layers_is_said_to_change_nothing(self):
        command = ["run", "-m", DEMO, "-p", "a", "-n", 1, "-c", 64, "-b", 8]
        least = self.least(*command)
        for policy in ([], ["--balance", "lru"]):
            result = run(*command, "--ram", f"{least}KiB", *policy)
            self.assert_ok(result)
            self.assertEqual(b"policy lru changes nothing" in result.stderr,
                             bool(policy))

    def test_a_row_for_each_budget(self):
        prompts = self.write("prompts.txt", b"Once upon a time\nThe dog\n")
        command = ["bench", "-m", DEMO, "-f", prompts, "-pg", "0,4"]
        least = self.least(*command[:3], "-p", 8, "-n", 8, "-r", 1) + 2000
        rams = f"{least}KiB,1KiB,1GiB"
        result = run(*command, "--ram", rams, "-o", "json")
        rows = json.loads(self.assert_ok(result))
        self.assertIn(b"1.00 KiB: ", result.stderr)
        self.assertEqual([row["ram"] for row in rows],
                         [least * 1024, 1024 ** 3])
        streamed, whole = rows
        self.assertEqual(streamed["unit"], "layers")
        self.assertLess(streamed["resident"], 1)
        self.assertGreater(streamed["misses_per_token"], 0)
        self.assertGreater(streamed["read_bytes_per_token"], 0)
        self.assertLessEqual(streamed["planned_bytes"], streamed["ram"])
        self.assertEqual(streamed["replayed_tokens"], 6)
        self.assertGreater(streamed["reads_alone_ms"], 0)
        self.assertEqual(streamed["compute_ms"], whole["p50_ms"])
        self.assertAlmostEqual(
            streamed["times_bound"],
            streamed["p50_ms"] / max(streamed["reads_alone_ms"],
                                     streamed["compute_ms"]))
        self.assertIsNone(whole["unit"])
        self.assertIsNone(whole["times_bound"])
        self.assertEqual(whole["misses_per_token"], 0)
        for row in rows:
            self.assertEqual(row["n_gen"], 6)
            self.assertGreater(row["ts"], 0)
            self.assertGreater(row["peak_bytes"], 0)
            self.assertGreaterEqual(row["p99_ms"], row["p50_ms"])
        table = self.assert_ok(run(*command, "--ram", rams)).decode()
        rows, words = table.split("\n\n")
        self.assertEqual(len(rows.splitlines()), 4)
        self.assertIn("reads alone by", words)
        self.assertIn("x bound: P50 by the longer of reads alone and P50 with "
                      "all in memory (1.00 GiB", words)
        self.assertEqual(
            run("run", "-m", DEMO, "-p", "a", "--ram", rams).returncode, 2)
        self.assertEqual(
            run(*command, "--ram", rams, "-np", 2).returncode, 2)


class BudgetLimitTest(CliTest):
    """Under a limit of the system's, with a file several times larger."""

    RAM = 96 * MIB

    def logits(self, **more):
        model = write_hollow_model(self.folder / "hollow.gguf", 16, 1024)
        self.assertGreater(model.stat().st_size, 5 * self.RAM)
        out = self.folder / "out.f32"
        self.assert_ok(run(
            "eval", "logits", "-m", model, "--tokens", "1,2,3", "--one-by-one",
            "-t", 1, "-b", 8, "--ram", self.RAM, "-o", out, **more))
        self.assertEqual(out.read_bytes(), bytes(3 * 64 * 4))

    def test_within_a_limit_of_data(self):
        if IS_SANITIZED:
            self.skipTest("shadow memory takes more than the limit")

        def limit():
            resource.setrlimit(resource.RLIMIT_DATA,
                               (self.RAM + BESIDE,) * 2)
        self.logits(preexec_fn=limit)

    def test_within_a_cgroup(self):
        if IS_SANITIZED:
            self.skipTest("shadow memory takes more than the limit")
        with limited_cgroup(self.RAM + BESIDE) as enter:
            if enter is None:
                self.skipTest("needs a cgroup that may be given a limit of "
                              "memory")
            self.logits(preexec_fn=enter)


if __name__ == "__main__":
    cli_support.main()
