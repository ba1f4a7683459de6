#!/usr/bin/env python3
"""Where the weights are: mapped, read into memory, locked in RAM."""

import ctypes
import json
import pathlib
import re
import resource
import shutil
import struct

import cli_support
from cli_support import DATA, DEMO, GOLDEN, STORIES, CliTest
from cli_support import run, start

KIB = 1024
PR_CAPBSET_DROP = 24
CAP_IPC_LOCK = 14


def may_lock_little():
    """In the child: 64 KiB of locked memory at most, for root too."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 * KIB, 64 * KIB))
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)


class MemoryTest(CliTest):

    def story(self, *flags, model=STORIES, **more):
        result = run("run", "-m", model, "-p", "Once upon a time", "-n", 20,
                     "--temp", 0, *flags, **more)
        return self.assert_ok(result), result.stderr.decode()

    def summary(self, stderr):
        """Bytes held and mapped, of the last line."""
        found = re.search(r"peak memory ([\d.]+) (\w+) anonymous and locked, "
                          r"([\d.]+) (\w+) mapped\n$", stderr)
        self.assertTrue(found, stderr)
        scale = {"B": 1, "KiB": KIB, "MiB": KIB ** 2, "GiB": KIB ** 3}
        return (float(found[1]) * scale[found[2]],
                float(found[3]) * scale[found[4]])

    def test_same_text_wherever_the_weights_are(self):
        want, stderr = self.story()
        self.assertIn(", weights mapped\n", stderr)
        for flags, where in ((["--no-mmap"], "read"),
                             (["--mlock"], "mapped and locked"),
                             (["--no-mmap", "--mlock"], "read and locked")):
            out, stderr = self.story(*flags)
            self.assertEqual(out, want)
            if "cannot lock" in stderr:
                self.assertIn("RLIMIT_MEMLOCK", stderr)
                where = where.split()[0]
            self.assertIn(f", weights {where}\n", stderr)

    def test_what_is_read_counts_as_anonymous(self):
        # Larger than what a sanitizer's own memory differs from run to run.
        held, mapped = self.summary(self.story(model=DEMO)[1])
        held_read, mapped_read = self.summary(
            self.story("--no-mmap", model=DEMO)[1])
        num_bytes = pathlib.Path(DEMO).stat().st_size
        self.assertGreater(held_read, held + num_bytes / 2)
        self.assertLess(mapped_read, mapped - num_bytes / 4)

    def test_without_the_right_to_lock(self):
        want, _ = self.story()
        for flags, where in ((["--mlock"], "mapped"),
                             (["--mlock", "--no-mmap"], "read")):
            out, stderr = self.story(*flags, preexec_fn=may_lock_little)
            self.assertEqual(out, want)
            warnings = [line for line in stderr.splitlines()
                        if line.startswith("thermocline: warning: ")]
            self.assertEqual(len(warnings), 1, stderr)
            self.assertRegex(warnings[0],
                             r"stories260K.gguf: cannot lock [\d.]+ MiB in RAM: "
                             r"RLIMIT_MEMLOCK is 64.00 KiB .*ulimit -l \d+\)")
            self.assertIn(f", weights {where}\n", stderr)

    def test_more_than_the_machine_is_refused_before_reading(self):
        self.assert_fails(
            run("run", "-m", GOLDEN, "-p", "a", "-c", 1 << 33, "--no-mmap"),
            " are needed (weights ", ", KV cache ", "more than the",
            "leave out --no-mmap")

    def test_a_budget_counts_mapped_weights(self):
        for command in (["run", "-m", GOLDEN, "-p", "a", "-n", 1],
                        ["bench", "-m", GOLDEN, "-p", 8, "-n", 2, "-r", 1],
                        ["eval", "logits", "-m", GOLDEN, "--tokens", "1,2",
                         "-o", self.folder / "x.f32"]):
            with self.subTest(command=command[0]):
                self.assert_fails(
                    run(*command, "--ram", "100KiB"),
                    GOLDEN, "a budget of 100.00 KiB of RAM does not hold the ",
                    "at least ", " are needed (weights ")
                result = run(*command, "--ram", "1GiB")
                self.assertEqual(result.returncode, 0, result.stderr)
        for bad in ("4gib", "-1", ""):
            result = run("run", "-m", GOLDEN, "-p", "a", "--ram", bad)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(b"is not a size", result.stderr)

    def test_a_prepared_model_larger_than_the_budget_runs(self):
        """Its text is that of the model in memory."""
        for flags in (["--for-storage"], []):
            model = self.folder / "prepared.gguf"
            self.assert_ok(run(
                "prepare", DEMO, "--corpus", DATA / "demo/valid.txt",
                "--no-predictor", "-c", 32, "-n", 4096, "-o", model, *flags))
            command = ["run", "-m", model, "-p", "Once upon a time", "-n", 12,
                       "--temp", 0, "-c", 64, "-b", 8]
            in_memory = run(*command, "--ram", "1GiB")
            want = self.assert_ok(in_memory)
            self.assertNotIn(b"slots", in_memory.stderr)
            refused = run(*command, "--ram", "10KiB")
            self.assert_fails(refused, "does not hold the ", "slots ")
            least = float(re.search(r"at least ([\d.]+) MiB are needed",
                                    refused.stderr.decode())[1]) + 0.01
            most = model.stat().st_size / KIB ** 2
            for ram in (least, (least + most) / 2):
                for mode in ("exact", "dense"):
                    with self.subTest(flags=flags, ram=ram, mode=mode):
                        result = run(*command, "--ram", f"{int(ram * KIB)}KiB",
                                     "--ffn", mode)
                        self.assertEqual(self.assert_ok(result), want)
                        stderr = result.stderr.decode()
                        self.assertRegex(stderr, r", FFN records \d+ % in [\d.]+"
                                         r" \w+ of slots \(.*\), the rest from ")
                        self.assertRegex(stderr, r"\nstreamed +[\d.]+ of ")

    def test_a_mixture_larger_than_the_budget_runs(self):
        """Its experts come from the file, prepared or not."""
        for flags in ([], ["--plain"]):
            model = self.folder / "mixture.gguf"
            text = self.folder / "mixture.txt"
            self.assert_ok(run("synth", "--like", "tiny-moe", "-o", model,
                               "--text", text, "--words", 64, *flags))
            command = ["run", "-m", model, "-p", text.read_text()[:60], "-n", 12,
                       "--temp", 0, "-c", 64, "-b", 32]
            want = self.assert_ok(run(*command))
            refused = run(*command, "--ram", "10KiB")
            self.assert_fails(refused, "does not hold the ", "slots ")
            least = float(re.search(r"at least ([\d.]+) MiB are needed",
                                    refused.stderr.decode())[1]) + 0.01
            for ram in (least, least + 1):
                with self.subTest(flags=flags, ram=ram):
                    result = run(*command, "--ram", f"{int(ram * KIB)}KiB")
                    self.assertEqual(self.assert_ok(result), want)
                    stderr = result.stderr.decode()
                    self.assertRegex(stderr, r", experts \d+ % in [\d.]+"
                                     r" \w+ of slots \(.*\), the rest from ")
                    self.assertRegex(
                        stderr, r"\nstreamed +[\d.]+ of 8.0 experts per .*, "
                        r"\d+ % foreseen, [\d.]+ read in vain; ")

    def test_less_than_two_layers_is_refused(self):
        self.assert_fails(run("run", "-m", DEMO, "-p", "a", "--ram", "100KiB"),
                          DEMO, "at least ", "slots ")

    def test_metadata_takes_little_more_than_its_file(self):
        """An array of bytes that nobody reads, in a file of holes."""
        num_bytes = 64 << 20
        path = self.folder / "array.gguf"
        head = b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"x", 9, 0,
                                     num_bytes)
        with open(path, "wb") as file:
            file.write(head)
            file.truncate(len(head) + num_bytes)

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (4 * num_bytes,) * 2)
        self.assert_ok(run("inspect", path, preexec_fn=limit))

    def test_little_address_space_names_what_needs_more(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (60000 * KIB,) * 2)
        with open("/dev/zero", "rb") as endless:
            for args in (("run", "-m", STORIES, "-f", "-"),
                         ("tokenize", "-m", STORIES)):
                result = start(*args, stdin=endless, preexec_fn=limit)
                _, stderr = result.communicate(timeout=cli_support.WAIT_LIMIT_S)
                self.assertEqual(result.returncode, 1, stderr)
                self.assertIn(b"error: standard input: ", stderr)

    def test_too_little_for_a_command_names_it(self):
        """Where no file or text is to blame: with the model mapped already."""
        output = self.folder / "out.gguf"
        said = []
        for mib in range(24, 256, 4):  # with less the program is not loaded
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (mib * KIB ** 2,) * 2)
            result = run("quantize", DEMO, output, "Q4_0", "-t", 1,
                         preexec_fn=limit)
            if result.returncode != 1:
                break
            self.assertFalse(output.exists())
            said.append(result.stderr)
        self.assert_ok(result)
        self.assertRegex(said[-1], rb"^thermocline: error: thermocline "
                         rb"quantize: out of memory: .*\(ulimit -v\)\n$")
        for stderr in said:
            self.assertRegex(stderr, rb"^thermocline: error: (thermocline "
                             rb"quantize: out of memory: .*|.*\.gguf: cannot "
                             rb"map: .*|.*\.gguf: not enough memory for its "
                             rb"metadata)\n$")

    def test_every_command_that_computes(self):
        text = self.write("text.txt", b"Once upon a time there was a girl. " * 20)
        model = ["-m", STORIES, "--no-mmap"]
        for args in (["eval", "ppl", *model, "-f", text, "-c", 32],
                     ["eval", "logits", *model, "--tokens", "1,2,3", "-o",
                      self.folder / "logits"],
                     ["eval", "kl", *model, "--base", STORIES, "-f", text,
                      "-c", 32]):
            self.assert_ok(run(*args))
        chat = run("run", *model, "-cnv", "--chat-template", "vicuna", "-n", 1,
                   stdin=b"Hello\n")
        self.assert_ok(chat)
        self.assertIn(b"weights read", chat.stderr)
        bench = self.assert_ok(run("bench", *model, "-p", 4, "-n", 0, "-r", 1))
        self.assertIn(b", weights read\n", bench)

    def test_a_file_that_shrinks_once_read_matters_no_more(self):
        """The chat has its weights before the first line arrives."""
        path = shutil.copy(STORIES, self.folder / "model.gguf")
        chat = start("run", "-m", path, "-cnv", "--chat-template", "vicuna",
                     "--temp", 0, "-n", 5, "--no-mmap", stdin=-1)
        self.addCleanup(chat.kill)
        for line in chat.stderr:
            if b"weights read" in line:
                break
        with open(path, "r+b") as file:
            file.truncate(1000)
        _, stderr = chat.communicate(b"Hello\n",
                                     timeout=cli_support.WAIT_LIMIT_S)
        self.assertEqual(chat.returncode, 0, stderr)

    def test_kv_cache_is_touched_as_it_fills(self):
        """A long context costs nothing until its positions are used."""
        report = json.loads(self.assert_ok(run("inspect", STORIES, "--json")))
        per_position = (report["memory"]["kv_bytes"] //
                        report["memory"]["context"])
        context = 512 * KIB ** 2 // per_position
        result = run("run", "-m", STORIES, "-p", "Once", "-n", 2, "-c", context)
        self.assert_ok(result)
        held, _ = self.summary(result.stderr.decode())
        self.assertLess(held, 256 * KIB ** 2)


if __name__ == "__main__":
    cli_support.main()
