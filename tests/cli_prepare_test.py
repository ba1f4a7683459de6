#!/usr/bin/env python3
"""`thermocline train` and `prepare`, as a user runs them."""

import json
import os
import pathlib
import re
import resource
import signal
import struct

import cli_support
from cli_support import DATA, DEMO, STORIES, floats, nmse
from cli_support import run, start

VALID = DATA / "demo/valid.txt"
MIXTRAL = DATA / "golden/mixtral-8x2-f16.gguf"
ARCEE = DATA / "golden-2026/arcee-f16.gguf"
# Little text and a short training: seconds, and far from the best.
QUICK = ("-c", 32, "-n", 4096, "--steps", 20, "-t", 2)
# For random weights, which no predictor knows well.
LOOSE = ("--steps", 20, "--recall", 0.8)
# A small model and a training that takes long enough to be ended in between.
STEADY = (ARCEE, "--corpus", VALID, "-c", 32, "-n", 4096, "--steps", 1000,
          "-t", 2)


class PrepareTest(cli_support.CliTest):

    def prepare(self, *args, **more):
        return run("prepare", DEMO, "--corpus", VALID, *QUICK, *args, **more)

    def test_a_model_that_runs_sparsely(self):
        output = self.folder / "demo.tc.gguf"
        text = self.assert_ok(self.prepare("-o", output)).decode()
        self.assertFalse(pathlib.Path(f"{output}.work").exists())
        rows = re.findall(r"^ +\d +\d+ +[\d.]+ KiB +([\d.]+) +([\d.]+) ", text,
                          re.MULTILINE)
        self.assertEqual(len(rows), 12, text)  # trained and training-free
        for share, recall in rows:
            self.assertLessEqual(float(share), 10)
            self.assertGreaterEqual(float(recall), 96.5)
        values = {}
        for mode in ("dense", "exact", "fast"):
            shown = self.assert_ok(
                run("eval", "ppl", "-m", output, "-f",
                    self.write("text", VALID.read_bytes()[:4000]), "-c", 64,
                    "--ffn", mode, "-t", 2)).decode()
            values[mode] = float(re.search(r"perplexity: ([\d.]+)", shown)[1])
        self.assertAlmostEqual(values["exact"] / values["dense"], 1, delta=1e-3)
        self.assertAlmostEqual(values["fast"] / values["dense"], 1, delta=0.05)

    def test_squared_relu_without_a_gate(self):
        text = self.write("text", VALID.read_bytes()[:4000])
        for name in ("nemotron", "arcee"):
            model = DATA / f"golden-2026/{name}-f16.gguf"
            output = self.folder / f"{name}.tc.gguf"
            self.assert_ok(run("prepare", model, "--corpus", VALID, *QUICK,
                               "-o", output))
            values = {}
            for mode in ("dense", "exact", "fast"):
                shown = self.assert_ok(
                    run("eval", "ppl", "-m", output, "-f", text, "-c", 64,
                        "--ffn", mode, "-t", 2)).decode()
                values[mode] = float(
                    re.search(r"mean nll ([\d.]+)", shown)[1])
            self.assertAlmostEqual(values["exact"], values["dense"], delta=1e-5)
            self.assertAlmostEqual(values["fast"], values["dense"], delta=0.05)
            self.assertIn(b"fast", self.assert_ok(run("inspect", output)))

    def test_without_openblas_all_but_training_works(self):
        self.write("libopenblas.so.0", b"")  # found first, and no library
        env = {"LD_LIBRARY_PATH": str(self.folder)}
        output = self.folder / "demo.tc.gguf"
        self.assert_fails(self.prepare("-o", output, env=env),
                          "OpenBLAS", "libopenblas0")
        self.assert_ok(run("prepare", DEMO, "--corpus", VALID, "-c", 32, "-n",
                           4096, "-o", output, "--no-predictor", env=env))

    def test_train_and_prepare_apart_give_the_same_predictors(self):
        whole = self.folder / "whole.gguf"
        self.assert_ok(run("prepare", ARCEE, "--corpus", VALID, *QUICK, "-o",
                           whole))
        trained = self.folder / "small.pred.gguf"
        self.assert_ok(run("train", ARCEE, "--corpus", VALID, *QUICK, "-o",
                           trained))
        apart = self.folder / "apart.gguf"
        self.assert_ok(run("prepare", ARCEE, "--predictors", trained, "-o",
                           apart))
        self.assertEqual(apart.read_bytes(), whole.read_bytes())
        result = run("prepare", ARCEE, "--predictors", trained, "-o",
                     "/dev/stdout")
        self.assertEqual(self.assert_ok(result), whole.read_bytes())
        self.assertIn(b"wrote /dev/stdout", result.stderr)

    def test_the_same_bytes_after_a_kill(self):
        output = self.folder / "small.tc.gguf"
        work = pathlib.Path(f"{output}.work")
        whole = self.folder / "whole.tc.gguf"
        self.assert_ok(run("prepare", *STEADY, "-o", whole))
        # Killed as soon as the file of each stage is there.
        for stage in ("description.txt", "scan.gguf", "layer-0.gguf"):
            process = start("prepare", *STEADY, "-o", output)
            while not (work / stage).exists():
                self.assertIsNone(process.poll())
            process.kill()
            process.communicate()
            self.assertFalse(output.exists())
        other = run("prepare", *STEADY, "-o", output, "--seed", 3)
        self.assert_fails(other, f"{output}.work", "seed: 0", "seed: 3")
        done = self.assert_ok(run("prepare", *STEADY, "-o", output))
        self.assertIn(b"went on from an interrupted run", done)
        self.assertEqual(output.read_bytes(), whole.read_bytes())
        self.assertFalse(work.exists())

    def test_an_interrupt_keeps_what_is_done(self):
        output = self.folder / "small.tc.gguf"
        work = pathlib.Path(f"{output}.work")
        process = start("prepare", *STEADY, "-o", output)
        while not (work / "layer-0.gguf").exists():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=cli_support.WAIT_LIMIT_S)
        self.assertEqual(process.returncode, 130)
        self.assertIn(f"{work} holds what is finished: the same command goes "
                      "on", said.decode())
        self.assertIn("layer-0.gguf", os.listdir(work))
        self.assertFalse(output.exists())

    def test_little_address_space_is_an_error(self):
        """OpenBLAS would ask for it for ever."""
        for kib, what in ((50000, "failed to map"), (150000, "no memory")):
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10))
            self.assert_fails(
                self.prepare("-t", 1, "-o", self.folder / "none.gguf",
                             preexec_fn=limit), "libopenblas", what)


class RecordsTest(cli_support.CliTest):
    """What becomes of the FFNs' matrices."""

    def setUp(self):
        super().setUp()
        self.small = self.folder / "q4.gguf"
        self.assert_ok(run("quantize", DEMO, self.small, "Q4_0"))

    def prepare(self, name, *args, model=None):
        output = self.folder / name
        shown = self.assert_ok(
            run("prepare", model or self.small, "--corpus", VALID, "-c", 32, "-n", 4096,
                "-t", 2, "-o", output, *args)).decode()
        return output, shown

    def logits(self, model, *args):
        out = self.folder / "logits"
        self.assert_ok(run("eval", "logits", "-m", model, "--tokens",
                           ",".join(map(str, range(1, 60))), "-o", out, "-t",
                           2, *args))
        return floats(out.read_bytes())

    def test_where_the_down_columns_come_from(self):
        best = self.logits(DEMO)
        errors = []
        for args, types, is_lossless in [
                ((), "Q4_0 up, Q4_0 down, 320 bytes", False),
                (("--from-source", DEMO),
                 "Q4_0 up, Q4_0 down, 320 bytes", False),
                (("--from-source", DEMO, "--down-type", "F16"),
                 "Q4_0 up, F16 down, 704 bytes", True)]:
            output, shown = self.prepare("m", "--no-predictor", *args)
            self.assertEqual("rounding the down columns" not in shown,
                             is_lossless, shown)
            self.assertIn(types, self.assert_ok(run("inspect",
                                                    output)).decode())
            errors.append(nmse(self.logits(output, "--ffn", "exact"), best))
        self.assertGreater(errors[0], 1.02 * errors[1])
        self.assertGreater(errors[1], 1.02 * errors[2])

    def test_parts_without_records(self):
        model = self.folder / "arcee.gguf"
        self.assert_ok(run("quantize", ARCEE, model, "Q4_0"))
        output, shown = self.prepare("m", "--no-bundle", *LOOSE, model=model)
        self.assertNotIn("rounding", shown)
        self.assertEqual(self.logits(output, "--ffn", "dense"),
                         self.logits(model))
        text = self.assert_ok(run("inspect", output)).decode()
        self.assertNotIn("records", text)
        self.assertIn("order         groups of 8\n", text)
        self.assertIn("order of the neurons, in groups of 8: where one of a "
                      "group fires, ", shown)
        self.assertIn("ffn           4 x Q4_0", text)
        # Predictors work on matrices too.
        bundled, _ = self.prepare("bundled", *LOOSE, model=model)
        self.assertEqual(
            self.logits(output, "--bundle-at-load", "--ffn", "fast"),
            self.logits(bundled, "--ffn", "fast"))
        result = run("run", "-m", output, "-p", "a", "-n", "2", "--temp", "0")
        self.assert_ok(result)
        self.assertTrue(result.stderr.startswith(b"fast"), result.stderr)

    def test_neurons_that_fire_together_lie_together(self):
        source = DATA / "golden-powerinfer/llama-f16.powerinfer.gguf"
        kept, _ = self.prepare("kept", "--no-predictor", "--for-storage",
                               "--keep-order", model=source)
        ordered = self.folder / "ordered"
        shown = self.assert_ok(run("prepare", source, "--predictors", kept,
                                   "-o", ordered, "--for-storage")).decode()
        for model, in_order in ((kept, False), (ordered, True)):
            told = json.loads(self.assert_ok(run("inspect", model, "--json")))
            self.assertEqual(told["prepared"]["in_order"], in_order)
        for mode in ("dense", "exact", "fast"):
            error = nmse(self.logits(ordered, "--ffn", mode),
                         self.logits(kept, "--ffn", mode))
            self.assertLess(error, 1e-9)
            self.assertGreater(error, 0)  # sums are in another order
        output = self.folder / "x"
        for model, parts in ((kept, ordered), (ordered, kept)):
            self.assert_fails(run("prepare", model, "--predictors", parts, "-o",
                                  output), str(parts), str(model), "numbers")
        # In order already: again it is the same file.
        self.assert_ok(run("prepare", ordered, "--predictors", ordered,
                           "--for-storage", "-o", output))
        self.assertEqual(output.read_bytes(), ordered.read_bytes())
        moe = self.folder / "moe.gguf"
        self.assert_ok(run("synth", "--like", "tiny-moe", "-o", moe))
        shown = self.assert_ok(run("prepare", moe, "--predictors", moe,
                                   "--for-storage", "-o", output)).decode()
        self.assertIn("records are in the order of the neurons' numbers: "
                      "those of experts keep theirs\n", shown)
        self.assert_fails(run("prepare", kept, "--predictors", kept, "-o",
                              output, "--keep-order"), "--for-storage", code=2)

    def test_what_cannot_be(self):
        def refused(*args):
            return run("prepare", self.small, "--corpus", VALID, "-c", 32, "-o",
                       self.folder / "x", *args)
        self.assert_fails(refused("--from-source", STORIES), STORIES,
                          "another model", "number of layers")
        self.assert_fails(refused("--from-source", self.folder / "none"),
                          "none", "cannot open")
        self.assert_fails(refused("--from-source", VALID), str(VALID))
        self.assert_fails(refused("--down-type", "q9"), "'q9'", code=2)
        self.assert_fails(refused("--down-type", "i8"), "'i8'", code=2)
        for flag in (("--down-type", "f16"), ("--from-source", DEMO),
                     ("--for-storage",), ("--bundle-at-load",)):
            self.assert_fails(refused("--no-bundle", *flag), "--no-bundle",
                              flag[0], code=2)
        # Narrower than the blocks; found before anything is computed.
        self.assert_fails(
            run("prepare", STORIES, "--corpus", VALID, "--density", "0.5",
                "--down-type", "q4_k", "-o", self.folder / "x"), "layer 0",
            "Q4_K", "down can be Q8_0 or Q4_0", "--down-type")
        source = self.folder / "source.gguf"
        source.write_bytes(pathlib.Path(DEMO).read_bytes())
        self.assert_fails(
            run("prepare", self.small, "--corpus", VALID, "--from-source",
                source, "-o", source), "source.gguf", "is one of the files")
        self.assertEqual(self.leftovers("q4.gguf", "source.gguf"), [])


class PrepareErrorsTest(cli_support.CliTest):

    def test_a_corpus_that_is_too_small(self):
        text = self.write("text", b"Once upon a time.")
        self.assert_fails(
            run("prepare", DEMO, "--corpus", text, "-o", self.folder / "x"),
            text, "too few to learn from")
        self.assertEqual(self.leftovers(), ["text"])

    def test_chunks_so_long_that_few_fit_the_default(self):
        """The text is told of, not -n, which was not given."""
        key = b"llama.context_length" + struct.pack("<I", 4)  # of type u32
        model = pathlib.Path(STORIES).read_bytes()
        place = model.index(key) + len(key)
        long = self.write("long.gguf", model[:place] +
                          struct.pack("<I", 32768) + model[place + 4:])
        for chunk, wanted in ((0, 16 * 32768), (16384, 16 * 16384)):
            result = run("prepare", long, "--corpus", VALID, "-c", chunk, "-o",
                         self.folder / "x")
            self.assert_fails(result, f"{VALID}: ", str(wanted))
            self.assertNotIn(b"-n", result.stderr)

    def test_a_model_without_zeros(self):
        output = self.folder / "x"
        self.assert_fails(
            run("prepare", STORIES, "--corpus", VALID, "-c", 32, "-o", output),
            "100.0 % of the neurons fire", "--density", "--ppl-cost")

    def test_nothing_to_train(self):
        output = self.folder / "x"
        for model in (STORIES, MIXTRAL):
            self.assert_fails(
                run("train", model, "--corpus", VALID, "-c", 32, "-o", output),
                str(model), "silu", "--density", "--ppl-cost")
        mixture = (MIXTRAL, "--ffn-act", "relu", "--corpus", VALID, "-c", 32,
                   "-n", 4096, "--lookahead", 1, "-o", output)
        self.assert_fails(run("train", *mixture), "cannot look ahead")
        self.assertEqual(self.leftovers(), [])

    def test_a_mixture(self):
        model = self.folder / "mixture.tc.gguf"
        shown = self.assert_ok(run(
            "prepare", MIXTRAL, "--ffn-act", "relu", "--corpus", VALID, *QUICK,
            "--recall", 0.8, "--no-bundle", "-o", model)).decode()
        self.assertIn("trained predictors", shown)
        # Weights are random: predictors miss some, and say how many.
        report = json.loads(self.assert_ok(run(
            "eval", "sparsity", "-m", model, "-f",
            self.write("text", VALID.read_bytes()[:4000]), "-c", 64,
            "--json")))
        self.assertEqual((report["mode"], report["predictor"]),
                         ("fast", "trained"))
        self.assertGreater(report["recall"], 0.6)
        self.assertLess(report["recall"], 1.0)

    def test_thresholds_for_a_density(self):
        output = self.folder / "silu.tc.gguf"
        text = self.assert_ok(
            run("prepare", STORIES, "--corpus", VALID, "-c", 32, "-n", 4096,
                "--density", "0.5", "-o", output)).decode()
        self.assertIn("thresholds for a density of 50.0 %", text)
        how = "with its thresholds: thermocline run -m {} --ffn threshold\n"
        self.assertIn(how.format(output), text)
        again = self.folder / "again.tc.gguf"
        text = self.assert_ok(
            run("prepare", STORIES, "--predictors", output, "-o",
                again)).decode()
        self.assertIn(how.format(again), text)
        shown = self.assert_ok(
            run("eval", "ppl", "-m", output, "-f",
                self.write("text", VALID.read_bytes()[:4000]), "-c", 64,
                "--ffn", "threshold")).decode()
        self.assertIn("perplexity", shown)

    def test_an_output_that_is_an_input(self):
        for victim in (DEMO, VALID):
            self.assert_fails(
                run("prepare", DEMO, "--corpus", VALID, "-o", victim),
                str(victim), "is one of the files")

    def test_predictors_of_another_model(self):
        trained = self.folder / "p.gguf"
        self.assert_ok(run("train", ARCEE, "--corpus", VALID, *QUICK, "-o",
                           trained))
        self.assert_fails(
            run("prepare", STORIES, "--predictors", trained, "-o",
                self.folder / "x"), str(trained), "layers")


if __name__ == "__main__":
    cli_support.main()
