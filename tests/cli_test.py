#!/usr/bin/env python3
"""End-to-end tests of the `thermocline` program on real model files."""

import csv
import io
import json
import math
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import unittest

import cli_support
from cli_support import (CliTest, DATA, GOLDEN, Gguf, LILY, PROGRAM, STORIES,
                         WAIT_LIMIT_S, floats, nmse, run, start,
                         wait_for_handler)


class UsageTest(CliTest):

    def test_version(self):
        out = self.assert_ok(run("--version"))
        self.assertRegex(out, rb"\Athermocline \d+\.\d+\.\d+ \(.*\)\n\Z")

    def assert_help(self, *command):
        """Also of the commands below; the paths of all of them."""
        out = self.assert_ok(run(*command, "--help")).decode()
        path = " ".join(("thermocline",) + command)
        self.assertIn(f"\nUsage: {path} ", out)
        self.assertIn("Examples:\n  ", out)
        below = re.search(r"^(?:Commands|Subcommands):\n((?:  .*\n)+)", out,
                          re.MULTILINE)
        names = re.findall(r"^  (\S+)", below[1], re.MULTILINE) if below else []
        return [command] + [found for name in names
                            for found in self.assert_help(*command, name)]

    def test_help_of_every_command(self):
        commands = self.assert_help()
        self.assertLess({("prepare",), ("eval", "sparsity"), ("bench", "roof")},
                        set(commands))

    def test_wrong_usage(self):
        prompt = ("run", "-m", STORIES, "-p", "a")
        for args, part in (
                (("fly",), "unknown command 'fly'"),
                (("--fly",), "unknown argument '--fly'"),
                (("run",), "--model is required"),
                (("run", "-m", STORIES), "no prompt: give one by -p or -f"),
                (prompt + ("-f", "b"), "by -p or by -f, not both"),
                (prompt + ("-ngl", "x"), "'x' is not a whole number"),
                (prompt + ("-ctk", "q3"), "'q3' is not one of f32, f16, q8_0"),
                (prompt + ("-n", "many"), "'many' is not a whole number"),
                (prompt + ("--top-p", "inf"), "--top-p: 'inf' is not a number"),
                (prompt[:-1], "-p: its value is missing"),
                (("eval", "logits", "-m", GOLDEN, "-o", "x"),
                 "either --tokens or --tokens-file"),
                (("eval", "ppl", "-m", GOLDEN), "--file is required"),
                (("convert", "x"), "--output is required"),
                (("bench",), "--model is required"),
                (("tokenize",), "--model is required"),
                (("inspect",), "the model is missing"),
                (("inspect", "a", "b"), "unknown argument 'b'")):
            with self.subTest(args=args):
                self.assert_fails(run(*args), part, "--help')", code=2)
        self.assertEqual(run().returncode, 2)

    def test_empty_paths_are_wrong_usage(self):
        """Every flag that takes a FILE says so of itself, in every command."""
        tried = 0
        for command in self.assert_help():
            page = run(*command, "--help").stdout.decode()
            for names in re.findall(r"^  (-.*?) FILE\b", page, re.MULTILINE):
                with self.subTest(command=command, flag=names):
                    self.assert_fails(
                        run(*command, names.split(", ")[0], ""),
                        f"{names}: the path is empty", "--help')", code=2)
                    tried += 1
        self.assertGreater(tried, 40)

    def test_flags_with_one_dash_and_their_values(self):
        want = self.assert_ok(run("run", "-m", STORIES, "-p", "-ctk", "-n", 8,
                                  "--temp", 0, "--cache-type-k", "f32",
                                  "--cache-type-v", "f16"))
        got = self.assert_ok(run("run", "-m", STORIES, "-p", "-ctk", "-n", 8,
                                 "--temp", 0, "-ctk", "f32", "-ctv", "f16"))
        self.assertEqual(got, want)

    def test_colours_only_where_wanted(self):
        for env, coloured in (({"NO_COLOR": "", "TERM": "xterm"}, True),
                              ({"NO_COLOR": "1", "TERM": "xterm"}, False)):
            primary, secondary = os.openpty()
            result = run("inspect", "no/such.gguf", env=env, stderr=secondary)
            os.close(secondary)
            text = os.read(primary, 4096)
            os.close(primary)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"no/such.gguf", text)
            self.assertEqual(b"\x1b[" in text, coloured)
        self.assertNotIn(b"\x1b", run("inspect", "no/such.gguf").stderr)


class RunTest(CliTest):

    def test_story_goes_on(self):
        result = run("run", "-m", STORIES, "-p", "Once upon a time", "-n", 40,
                     "--temp", 0)
        out = self.assert_ok(result)
        self.assertTrue(out.startswith(LILY), out)
        self.assertFalse(out.endswith(b"\n"))
        self.assertIn(b"dense, ", result.stderr)
        self.assertIn(b"tok/s", result.stderr)

    def test_same_text_for_every_thread_count_and_batch(self):
        def story(*more):
            return self.assert_ok(run("run", "-m", STORIES, "-p", "Tom and",
                                      "-n", 60, "-s", 3, *more))
        want = story("-t", 1)
        self.assertEqual(story("-t", 2), want)
        self.assertEqual(story("-t", 3, "-b", 1), want)

    def test_without_a_terminal(self):
        out = self.assert_ok(run("run", "-m", STORIES, "-p", "Once upon a time",
                                 "-n", 30, "--temp", 0,
                                 start_new_session=True))
        self.assertEqual(out[:20], LILY[:20])

    def test_prompt_longer_than_context(self):
        self.assert_fails(run("run", "-m", STORIES, "-p", "a b c d e f g h",
                              "-c", 5),
                          "the prompt has ", "the context of 5 positions")

    def test_stops_when_the_context_is_full(self):
        result = run("run", "-m", STORIES, "-p", "Once", "-c", 32,
                     "--ignore-eos")
        self.assert_ok(result)
        self.assertIn(b"context full", result.stderr)

    def test_huge_context_is_refused_with_numbers(self):
        result = run("run", "-m", STORIES, "-p", "x", "-c", 10 ** 11)
        self.assertEqual(result.returncode, 1)
        line = result.stderr.decode().splitlines()[-1]
        self.assertRegex(line, r"thermocline: error: .*iB.*iB")

    def test_model_without_vocabulary(self):
        model = Gguf(STORIES)
        at = model.values["tokenizer.ggml.model"] - 4  # behind the key's text
        model.bytes[at - 5:at] = b"other"
        path = self.write("novocab.gguf", model.bytes)
        for command in (["run", "-m", path, "-p", "x"],
                        ["tokenize", "-m", path],
                        ["bench", "-m", path, "-f", DATA / "demo/valid.txt"]):
            self.assert_fails(run(*command), "novocab.gguf", "no vocabulary")
        self.assert_ok(run("eval", "logits", "-m", path, "--tokens", "1,2",
                           "-o", "/dev/null"))

    def test_summary_begins_a_line_where_both_streams_are_one(self):
        result = subprocess.run(
            [PROGRAM, "run", "-m", STORIES, "-p", "Once", "-n", "4", "--temp",
             "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=WAIT_LIMIT_S)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, rb"\nprompt  ")
        alone = self.assert_ok(run("run", "-m", STORIES, "-p", "Once", "-n", 4,
                                   "--temp", 0))
        self.assertFalse(alone.endswith(b"\n"), alone)

    def test_closed_stdout_is_silent(self):
        process = start("run", "-m", STORIES, "-p", "Once", "-c", 65536,
                        "--ignore-eos", "-t", 1)
        self.assertTrue(process.stdout.read(1))
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(WAIT_LIMIT_S), 0, error)
        self.assertNotIn(b"error", error)

    def test_stdout_not_open_at_all(self):
        def closed(command):
            result = subprocess.run(
                ["sh", "-c", f'"$0" {command} >&-', PROGRAM, STORIES],
                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                timeout=WAIT_LIMIT_S)
            return result.returncode, result.stderr

        for command in ('run -m "$1" -p Once -n 4', 'inspect "$1"',
                        "--version"):
            code, error = closed(command)
            self.assertEqual(code, 1, error)
            self.assertIn(b"standard output: it is closed", error)
        # Where nothing goes there, nothing is lost.
        code, error = closed('eval logits -m "$1" --tokens 1 -o /dev/null')
        self.assertEqual(code, 0, error)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_full_disk(self):
        for args in (["run", "-m", STORIES, "-p", "Once", "-n", "4"],
                     ["inspect", STORIES]):
            with open("/dev/full", "wb") as full:
                result = run(*args, stdout=full)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"standard output: No space", result.stderr)

    def test_ctrl_c(self):
        for sent, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143),
                           (signal.SIGHUP, 129)):
            process = start("run", "-m", STORIES, "-p", "Once", "-c", 65536,
                            "--ignore-eos", "-t", 2)
            self.assertTrue(process.stdout.read(1))
            process.send_signal(sent)
            _, error = process.communicate(timeout=WAIT_LIMIT_S)
            self.assertEqual(process.returncode, code, error)
            self.assertIn(b"interrupted", error)
            self.assertNotIn(b"error", error)

    def test_ctrl_c_while_reading_the_prompt(self):
        process = start("tokenize", "-m", STORIES, stdin=subprocess.PIPE)
        wait_for_handler(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(WAIT_LIMIT_S), 130)
        process.communicate()

    def test_file_that_is_written_over_while_in_use(self):
        path = self.write("model.gguf", pathlib.Path(STORIES).read_bytes())

        def chat(change):
            process = start("run", "-m", path, "-cnv", "--chat-template",
                            "vicuna", "-n", 4, "--ignore-eos",
                            stdin=subprocess.PIPE)
            process.stdin.write(b"Hi\n")
            process.stdin.flush()
            self.assertTrue(process.stdout.read(1))
            change()
            _, error = process.communicate(timeout=WAIT_LIMIT_S)
            return process.returncode, error.decode()

        def write_over():
            with open(path, "r+b") as file:
                file.write(b"GGUF")
            os.utime(path, ns=(1, 1))  # sooner than any clock ticks

        def replace():
            os.replace(self.write("new", pathlib.Path(path).read_bytes()), path)

        code, error = chat(write_over)
        self.assertEqual(code, 1, error)
        self.assertRegex(error, r"thermocline: error: .*model\.gguf: was changed "
                         "while it was in use")
        code, error = chat(replace)
        self.assertEqual(code, 0, error)
        self.assertNotIn("changed", error)

    def test_file_that_shrinks_while_in_use(self):
        path = self.write("shrinks.gguf", pathlib.Path(STORIES).read_bytes())
        process = start("run", "-m", path, "-p", "Once", "-c", 65536,
                        "--ignore-eos", "-t", 2)
        self.assertTrue(process.stdout.read(1))
        os.truncate(path, 4096)
        _, error = process.communicate(timeout=WAIT_LIMIT_S)
        self.assertEqual(process.returncode, 1, error)
        self.assertRegex(error, rb"thermocline: error: .*shrinks\.gguf: shrank")
        self.assertEqual(error.count(b"error"), 1)


class BadFileTest(CliTest):

    def assert_refused(self, path, *parts):
        for command in (["inspect", path], ["run", "-m", path, "-p", "x"],
                        ["tokenize", "-m", path], ["bench", "-m", path],
                        ["eval", "ppl", "-m", path, "-f", DATA / "demo/valid.txt"],
                        ["eval", "logits", "-m", path, "--tokens", "1", "-o",
                         self.folder / "out.f32"]):
            with self.subTest(command=command[0]):
                self.assert_fails(run(*command), *parts)
        self.assertFalse((self.folder / "out.f32").exists())

    def test_missing(self):
        self.assert_refused(self.folder / "absent.gguf", "absent.gguf")

    def test_pipe_that_nothing_writes_to(self):
        path = str(self.folder / "fifo")
        os.mkfifo(path)
        for args in (("inspect", path), ("run", "-m", path, "-p", "x")):
            self.assert_fails(run(*args), "fifo: is a pipe")

    def test_folder(self):
        self.assert_refused(self.folder, self.folder.name)

    def test_empty_and_other_formats(self):
        for name, data in (("empty.gguf", b""), ("text.gguf", b"hello\n" * 99),
                           ("zeros.gguf", bytes(4096))):
            self.assert_refused(self.write(name, data), name)

    def test_truncated(self):
        data = pathlib.Path(GOLDEN).read_bytes()
        for size in sorted({4, 7, 24, 100, 1000, 5000, len(data) // 2,
                            len(data) - 1}):
            path = self.write("cut.gguf", data[:size])
            self.assert_fails(run("run", "-m", path, "-p", "x"), "cut.gguf")

    def test_single_bytes_changed(self):
        """Any answer but a crash."""
        data = pathlib.Path(GOLDEN).read_bytes()
        generator = random.Random(5)
        for _ in range(60):
            changed = bytearray(data)
            changed[generator.randrange(12000)] = generator.randrange(256)
            path = self.write("changed.gguf", changed)
            result = run("inspect", path, "--json")
            self.assertIn(result.returncode, (0, 1), result.stderr)
            if result.returncode == 0:
                json.loads(result.stdout)
            result = run("eval", "logits", "-m", path, "--tokens", "1,2", "-o",
                         "/dev/null")
            self.assertIn(result.returncode, (0, 1), result.stderr)

    def test_unsupported_architecture(self):
        model = Gguf(GOLDEN)
        at = model.values["general.architecture"]
        model.bytes[at + 8:at + 13] = b"nosuc"
        path = self.write("other.gguf", model.bytes)
        self.assert_fails(run("run", "-m", path, "-p", "x"), "nosuc")
        out = self.assert_ok(run("inspect", path))
        self.assertIn(b"cannot run", out)
        report = json.loads(self.assert_ok(run("inspect", path, "--json")))
        self.assertFalse(report["runs"])
        self.assertIn("nosuc", report["reason"])
        self.assertEqual(
            self.assert_ok(run("tokenize", "-m", path, stdin=b"a")),
            self.assert_ok(run("tokenize", "-m", GOLDEN, stdin=b"a")))

    def test_unsupported_tensor_type(self):
        model = Gguf(GOLDEN)
        type_at, _ = model.tensors["blk.0.ffn_up.weight"]
        for type_id in (4, 99):
            struct.pack_into("<I", model.bytes, type_at, type_id)
            path = self.write("type.gguf", model.bytes)
            self.assert_fails(run("run", "-m", path, "-p", "x"), "type.gguf")

    def test_weights_that_are_not_finite(self):
        model = Gguf(GOLDEN)
        _, data_at = model.tensors["blk.1.ffn_up.weight"]
        struct.pack_into("<H", model.bytes, data_at, 0x7e00)  # F16 NaN
        path = self.write("nan.gguf", model.bytes)
        logits = ["eval", "logits", "-m", path, "--tokens", "1,2", "-o",
                  self.folder / "out.f32"]
        self.assert_fails(run(*logits), "layer 1")
        self.assert_fails(run(*logits, "--check-tensors"),
                          "blk.1.ffn_up.weight")
        self.assertEqual(self.leftovers("nan.gguf"), [])
        self.assert_ok(run("eval", "logits", "-m", GOLDEN, "--tokens", "1",
                           "-o", "/dev/null", "--check-tensors"))


class InspectTest(CliTest):

    def test_text_and_json(self):
        out = self.assert_ok(run("inspect", STORIES))
        self.assertIn(b"architecture    llama\n", out)
        report = json.loads(self.assert_ok(run("inspect", STORIES, "--json")))
        self.assertEqual(report["architecture"], "llama")
        self.assertEqual(report["width"], 64)
        self.assertEqual(report["layers"], 5)
        self.assertEqual(report["tokenizer"]["tokens"], 512)
        self.assertEqual(report["ffn"]["activation"], "silu")
        self.assertTrue(report["runs"])
        self.assertEqual(report["executor"], "dense")
        self.assertGreater(report["memory"]["kv_bytes"], 0)
        total = sum(use["bytes"] for uses in report["quantisation"].values()
                    for use in uses)
        self.assertEqual(total, report["weight_bytes"])

    def test_vocabulary_without_tensors(self):
        path = DATA / "tokenizers/ggml-vocab-gpt-2.gguf"
        report = json.loads(self.assert_ok(run("inspect", path, "--json")))
        self.assertFalse(report["runs"])
        self.assertEqual(report["tokenizer"]["tokens"], 50257)
        self.assertIn(b"cannot run", self.assert_ok(run("inspect", path)))

    def test_names_that_are_not_utf8(self):
        model = Gguf(GOLDEN)
        at = model.values["general.name"]
        model.bytes[at + 8] = 0xff
        model.bytes[at + 9] = 0x1b
        path = self.write("name.gguf", model.bytes)
        report = json.loads(self.assert_ok(run("inspect", path, "--json")))
        self.assertTrue(report["name"].startswith("\ufffd\x1b"))
        self.assertNotIn(b"\x1b", self.assert_ok(run("inspect", path)))

    def test_closed_stdout(self):
        result = subprocess.run(
            ["sh", "-c", '"$0" inspect "$1" --json | head -c 1', PROGRAM,
             STORIES], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=WAIT_LIMIT_S)
        self.assertEqual((result.stdout, result.stderr), (b"{", b""))


class TokenizeTest(CliTest):

    def test_there_and_back(self):
        text = "Ünï cödé  \t\n\n 123 <s> \U0001f600".encode() + b"\xff\0\n"
        for name in ("llama-spm", "gpt-2", "phi-3"):
            path = DATA / f"tokenizers/ggml-vocab-{name}.gguf"
            ids = self.assert_ok(run("tokenize", "-m", path, "--no-bos",
                                     stdin=text))
            self.assertRegex(ids, rb"\A\d+( \d+)*\n\Z")
            self.assertEqual(
                self.assert_ok(run("tokenize", "-m", path, "--decode",
                                   stdin=ids.replace(b" ", b","))), text)

    def test_golden_ids(self):
        path = DATA / "tokenizers/ggml-vocab-llama-spm.gguf"
        texts = (str(path) + ".inp", str(path) + ".out")
        inputs, outputs = (pathlib.Path(p).read_bytes() for p in texts)
        cases = inputs.split(b"\n__ggml_vocab_test__\n")
        for text, ids in list(zip(cases, outputs.split(b"\n")))[::5]:
            got = self.assert_ok(run("tokenize", "-m", path, "--no-bos",
                                     stdin=text))
            self.assertEqual(got.split(), ids.split(), text)

    def test_wrong_ids(self):
        for ids in (b"512", b"-1", b"one", b"1 2 3.5"):
            self.assert_fails(run("tokenize", "-m", STORIES, "--decode",
                                  stdin=ids), "token ids")


class LogitsTest(CliTest):

    @staticmethod
    def golden_cases():
        for case in json.loads((DATA / "golden/manifest.json").read_text()):
            yield (DATA / "golden" / case["model"], case["tokens"],
                   DATA / "golden" / case["logits"])

    def logits(self, model, tokens, *more):
        out = self.folder / "logits.f32"
        self.assert_ok(run("eval", "logits", "-m", model, "--tokens",
                           ",".join(map(str, tokens)), "-o", out, *more))
        return out.read_bytes()

    def test_golden_models_on_every_isa(self):
        version = run("--version").stdout.decode()
        isas = version[version.index(":") + 1:version.index(")")].split(",")
        if cli_support.IS_SANITIZED:  # kernels_test has the others
            isas = isas[-1:]
        num_cases = 0
        for model, tokens, logits_path in self.golden_cases():
            want = floats(logits_path.read_bytes())
            bound = 5e-7 if "f16" in model.name else 1e-3
            for isa in map(str.strip, isas):
                with self.subTest(model=model.name, isa=isa):
                    batch = self.logits(model, tokens, "--isa", isa)
                    self.assertLessEqual(nmse(floats(batch), want), bound)
                    single = self.logits(model, tokens, "--isa", isa, "-t", 2,
                                         "--one-by-one")
                    # Many tokens are multiplied in tiles, with sums of
                    # another order and other rounding; of F16 only with AMX.
                    if "f16" in model.name and isa != "amx":
                        self.assertEqual(single, batch)
                    else:
                        self.assertLessEqual(
                            nmse(floats(single), floats(batch)),
                            1e-9 if "f16" in model.name else bound)
            num_cases += 1
        self.assertEqual(num_cases, 14)  # what README.md says

    def together(self, model, lists, *more):
        out = self.folder / "together.f32"
        flags = [part for tokens in lists
                 for part in ("--tokens", ",".join(map(str, tokens)))]
        self.assert_ok(run("eval", "logits", "-m", model, *flags, "--together",
                           "-o", out, *more))
        return out.read_bytes()

    def test_sequences_together_have_the_bits_of_each_alone(self):
        lists = [[1, 5, 9], [7, 7], list(range(3, 90)), [4]]
        golden = DATA / "golden"
        powerinfer = DATA / "golden-powerinfer"
        for model, modes in (
                (golden / "llama-gqa-Q4_0.gguf", ["dense"]),
                (golden / "mixtral-8x2-f16.gguf", ["dense"]),
                (powerinfer / "bamboo-f16.powerinfer.gguf",
                 ["dense", "exact", "fast"])):
            for mode in modes:
                for phase in ((), ("--one-by-one",)):
                    with self.subTest(model=model.name, mode=mode, phase=phase):
                        flags = ("--ffn", mode, *phase)
                        alone = b"".join(self.logits(model, tokens, *flags)
                                         for tokens in lists)
                        for threads, batch in ((1, 512), (3, 40)):
                            self.assertEqual(
                                self.together(model, lists, *flags, "-t",
                                              threads, "-b", batch), alone)
        lines = self.folder / "ids.txt"
        lines.write_text("1,5,9\n\n7 7\n")
        out = self.folder / "lines.f32"
        self.assert_ok(run("eval", "logits", "-m", GOLDEN, "--tokens-file",
                           lines, "--together", "-o", out))
        self.assertEqual(out.read_bytes(),
                         self.together(GOLDEN, [[1, 5, 9], [7, 7]]))

    def test_sequences_that_cannot_run_together(self):
        out = self.folder / "x"
        logits = ("eval", "logits", "-m", GOLDEN, "--together", "-o", out)
        result = run(*logits, "--tokens", "1", "--tokens", "")
        self.assertEqual(result.returncode, 2, result.stderr)
        empty = self.folder / "empty"
        empty.write_text("\n \n")
        self.assert_fails(run(*logits, "--tokens-file", empty), "empty")
        self.assert_fails(run(*logits, "--tokens", "1", "--tokens", "2,320"),
                          "id 320 (number 3)")
        self.assert_fails(
            run(*logits, *["--tokens", "1,2"] * 40, "--ram", "1MiB"),
            "a budget of 1.00 MiB of RAM", " are needed")
        self.assertFalse(out.exists())
        empty.unlink()
        self.assertEqual(self.leftovers(), [])

    def test_token_list_longer_than_the_context(self):
        self.assert_fails(
            run("eval", "logits", "-m", GOLDEN, "--tokens",
                ",".join(["1"] * 600), "-o", self.folder / "x"), "600", "512")
        self.assert_fails(
            run("eval", "logits", "-m", GOLDEN, "--tokens", "1,2,3", "-c", 2,
                "-o", self.folder / "x"), "3", "2")
        self.assert_fails(
            run("eval", "logits", "-m", GOLDEN, "--tokens", "1,320", "-o",
                self.folder / "x"), "320")
        self.assertEqual(self.leftovers(), [])

    def test_output_appears_whole_or_not_at_all(self):
        out = self.write("old.f32", b"precious")
        args = ["eval", "logits", "-m", GOLDEN, "-o", out]
        self.assert_fails(run(*args, "--tokens", "1,9999"), "9999")
        self.assertEqual(pathlib.Path(out).read_bytes(), b"precious")
        link = self.folder / "link.f32"
        link.symlink_to("old.f32")
        self.assert_ok(run(*args[:-1], link, "--tokens", "1"))
        self.assertTrue(link.is_symlink())
        self.assertEqual(os.path.getsize(out), 320 * 4)
        self.assertEqual(self.leftovers("old.f32", "link.f32"), [])
        self.assert_fails(run(*args[:-1], self.folder / "no/such/place",
                              "--tokens", "1"), "no/such/place")

    def test_devices_are_written_directly(self):
        self.assert_ok(run("eval", "logits", "-m", GOLDEN, "--tokens", "1",
                           "-o", "/dev/null"))
        out = self.assert_ok(run("eval", "logits", "-m", GOLDEN, "--tokens",
                                 "1", "-o", "/dev/stdout"))
        self.assertEqual(len(out), 320 * 4)


class PerplexityTest(CliTest):

    def test_against_the_logits(self):
        text = (DATA / "demo/valid.txt").read_bytes()[:3000]
        path = self.write("text.txt", text)
        result = json.loads(self.assert_ok(
            run("eval", "ppl", "-m", STORIES, "-f", path, "-c", 32, "-ctk",
                "f32", "-ctv", "f32", "--json")))
        ids = [int(i) for i in
               run("tokenize", "-m", STORIES, stdin=text).stdout.split()]
        total, count = 0.0, 0
        for begin in range(0, len(ids) - 31, 32):
            chunk = [1] + ids[begin + 1:begin + 32]
            out = self.folder / "chunk.f32"
            self.assert_ok(run("eval", "logits", "-m", STORIES, "--tokens",
                               ",".join(map(str, chunk)), "-o", out))
            logits = floats(out.read_bytes())
            for p in range(16, 31):
                row = logits[512 * p:512 * (p + 1)]
                total += (math.log(math.fsum(map(math.exp, row))) -
                          row[chunk[p + 1]])
                count += 1
        self.assertEqual(result["predictions"], count)
        self.assertAlmostEqual(result["mean_nll"], total / count, places=5)
        self.assertAlmostEqual(result["perplexity"],
                               math.exp(total / count), places=3)

    def test_default_chunk_gives_way_to_a_small_context(self):
        model = Gguf(STORIES)
        struct.pack_into("<I", model.bytes,
                         model.values["llama.context_length"], 64)
        path = self.write("small.gguf", model.bytes)
        text = self.write("text.txt",
                          (DATA / "demo/valid.txt").read_bytes()[:2000])
        result = run("eval", "ppl", "-m", path, "-f", text)
        self.assertIn(b"chunks of 64,", self.assert_ok(result))
        self.assertIn(b"chunks of 64 tokens", result.stderr)

    def test_text_too_short(self):
        self.assert_fails(run("eval", "ppl", "-m", STORIES, "-f", "-",
                              stdin=b"Hello"), "two chunks")

    def test_ctrl_c(self):
        process = start("eval", "ppl", "-m", STORIES, "-f",
                        DATA / "demo/valid.txt", "-c", 2048, "--isa", "scalar",
                        "-t", 1)
        self.assertIn(b"dense", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=WAIT_LIMIT_S)
        self.assertEqual((process.returncode, out), (130, b""), error)


class BenchTest(CliTest):
    ARGS = ["bench", "-m", GOLDEN, "-p", "16,8", "-n", "4", "-t", "1,2", "-r",
            "2"]
    TESTS = ["pp16", "pp8", "tg4"] * 2

    def test_markdown(self):
        lines = self.assert_ok(run(*self.ARGS)).decode().splitlines()
        table = [line.split("|") for line in lines if line.startswith("|")]
        self.assertEqual(len(table), 2 + 6)
        self.assertEqual(len({len(row) for row in table}), 1)
        header = [cell.strip() for cell in table[0]]
        self.assertEqual(header[1:8], ["model", "size", "params", "backend",
                                       "threads", "test", "t/s"])
        self.assertEqual([row[6].strip() for row in table[2:]], self.TESTS)

    def test_json_and_csv(self):
        rows = json.loads(self.assert_ok(run(*self.ARGS, "-o", "json")))
        self.assertEqual([row["test"] for row in rows], self.TESTS)
        for row in rows:
            self.assertEqual(len(row["samples_ts"]), 2)
            self.assertGreater(row["avg_ts"], 0)
            self.assertGreater(row["roof_gb_per_s"], 0)
        text = self.assert_ok(run(*self.ARGS, "-o", "csv")).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([row["test"] for row in rows], self.TESTS)
        self.assertTrue(all(None not in row for row in rows))

    def test_prompt_longer_than_the_context(self):
        self.assert_fails(run("bench", "-m", GOLDEN, "-p", 513, "-n", 0),
                          "513", "512")

    def test_ctrl_c(self):
        process = start("bench", "-m", STORIES, "-r", 10000, "-o", "csv")
        wait_for_handler(process)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=WAIT_LIMIT_S)
        self.assertEqual((process.returncode, out), (130, b""))


class ConvertTest(CliTest):

    def test_what_is_no_checkpoint(self):
        out = self.folder / "out.gguf"
        self.assert_fails(run("convert", self.folder / "absent", "-o", out),
                          "absent")
        (self.folder / "empty").mkdir()
        self.assert_fails(run("convert", self.folder / "empty", "-o", out),
                          "config.json")
        self.assertEqual(self.leftovers("empty"), [])

    def test_never_replaces_its_input(self):
        path = self.write("config.json", b"{}")
        self.assert_fails(run("convert", self.folder, "-o", path),
                          "config.json")
        self.assertEqual(pathlib.Path(path).read_bytes(), b"{}")


if __name__ == "__main__":
    cli_support.main()
