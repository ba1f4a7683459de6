#!/usr/bin/env python3
"""End-to-end tests of `thermocline quantize`: files that llama.cpp's tool made
of the same models are the measure."""

import json
import pathlib
import unittest

import cli_support
import make_testdata
from cli_support import (CliTest, DATA, GOLDEN, Gguf, LILY, STORIES, floats,
                         nmse, run)

GOLDENS = DATA / "golden"
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22),
          7: (32, 24), 8: (32, 34), 12: (256, 144), 13: (256, 176),
          14: (256, 210), 30: (1, 2)}


def tensors(path):
    """Name -> (type id, bytes up to the next tensor)."""
    return {name: (type_id, data)
            for name, type_id, data in Gguf(path).tensor_bytes()}


def tokens(model):
    """What the golden file `model` was given."""
    for entry in json.loads((GOLDENS / "manifest.json").read_text()):
        if entry["model"] == model:
            return ",".join(map(str, entry["tokens"]))
    raise LookupError(model)


class QuantizeTest(CliTest):

    def quantize(self, source, kind, *flags):
        output = self.folder / f"{pathlib.Path(source).stem}-{kind}.gguf"
        self.assert_ok(run("quantize", source, output, kind, *flags))
        return output

    def logits(self, model, original):
        """What `model` makes of the tokens of the golden file `original`."""
        output = self.folder / "logits.f32"
        self.assert_ok(run("eval", "logits", "-m", model, "--tokens",
                           tokens(pathlib.Path(original).name), "-o", output))
        return floats(output.read_bytes())

    def test_types_and_simple_blocks_are_llama_cpps(self):
        for kind in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K_M",
                     "Q5_K_M", "Q6_K"):
            with self.subTest(kind=kind):
                made = tensors(self.quantize(GOLDEN, kind))
                golden = GOLDENS / f"llama-gqa-{kind}.gguf"
                want = tensors(golden)
                self.assertEqual({name: t for name, (t, _) in made.items()},
                                 {name: t for name, (t, _) in want.items()})
                # Of llama.cpp's own file, where ours stands in for it.
                sums = make_testdata.read_sums(DATA).get(f"golden/{golden.name}")
                for name, (type_id, data) in want.items():
                    if BLOCKS[type_id][0] != 256:
                        self.assertEqual(made[name][1], data, name)
                        if sums:
                            self.assertEqual(make_testdata.digest(data),
                                             sums[name], name)

    def test_a_stand_in_that_differs_is_named(self):
        sums = make_testdata.read_sums(DATA)["golden/llama-gqa-Q5_1.gguf"]
        file = Gguf(GOLDENS / "llama-gqa-Q5_1.gguf")
        self.assertEqual(len(sums), 1 + len(file.tensors))
        path = self.folder / "twin.gguf"
        for at, where in ((None, None),
                          (file.tensors["blk.1.ffn_up.weight"][1],
                           'tensor "blk.1.ffn_up.weight"'),
                          (len(file.bytes) - 1, 'tensor "blk.1.ffn_up.weight"'),
                          (file.values["general.file_type"],
                           "what is around the tensors")):
            twin = bytearray(file.bytes)
            if at is not None:
                twin[at] ^= 1
            path.write_bytes(twin)
            self.assertEqual(make_testdata.first_difference(path, sums), where)

    def test_logits_are_no_worse_than_llama_cpps(self):
        exact = floats((GOLDENS / "llama-gqa-f16.logits.f32").read_bytes())
        for kind in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K_M",
                     "Q5_K_M", "Q6_K"):
            with self.subTest(kind=kind):
                ours = self.logits(self.quantize(GOLDEN, kind), GOLDEN)
                theirs = self.logits(GOLDENS / f"llama-gqa-{kind}.gguf",
                                     GOLDEN)
                self.assertLess(nmse(ours, exact), 1.05 * nmse(theirs, exact))

    def test_every_golden_model_still_runs(self):
        sources = sorted(GOLDENS.glob("*-f16.gguf"))
        self.assertEqual(len(sources), 6)
        for source in sources:
            exact = floats(source.with_suffix("").with_suffix(
                ".logits.f32").read_bytes())
            # Rounding makes a router choose another expert here and there.
            eight_bits = 2e-2 if source.name.startswith("mixtral") else 1e-3
            for kind, bound in (("Q8_0", eight_bits), ("Q4_K_S", 0.05)):
                with self.subTest(model=source.name, kind=kind):
                    got = self.logits(self.quantize(source, kind), source)
                    self.assertLess(nmse(got, exact), bound)

    def test_same_bytes_for_every_number_of_threads(self):
        want = self.quantize(GOLDEN, "Q5_K_S", "-t", 1).read_bytes()
        for threads in (2, 5):
            got = self.quantize(GOLDEN, "Q5_K_S", "-t", threads).read_bytes()
            self.assertEqual(got, want)

    def test_powerinfer_files_stay_that(self):
        sources = sorted((DATA / "golden-powerinfer").glob("*.gguf"))
        self.assertEqual(len(sources), 5)
        for source in sources:
            with self.subTest(model=source.name):
                made = self.quantize(source, "Q4_0")
                self.assertEqual(made.read_bytes()[:4], b"PWRI")
                kinds = {name: t for name, (t, _) in tensors(made).items()}
                self.assertEqual(kinds["blk.0.fc1.weight"], 2)
                self.assertEqual(kinds["blk.0.ffn_down_t.weight"], 2)
                self.assert_ok(run("inspect", made))

    def test_a_story_from_eight_bits(self):
        model = self.quantize(STORIES, "Q8_0")
        story = self.assert_ok(run("run", "-m", model, "-p",
                                   "Once upon a time", "-n", 40, "--temp", 0))
        self.assertTrue(story.startswith(LILY), story)

    def test_a_full_disk(self):
        self.assert_fails(run("quantize", GOLDEN, "/dev/full", "Q4_0"),
                          "/dev/full", "No space left")

    def test_files_that_are_no_models(self):
        vocab = DATA / "tokenizers" / "ggml-vocab-gpt-2.gguf"
        self.assert_fails(run("quantize", vocab, self.folder / "out.gguf",
                              "Q4_0"), vocab.name, "no weights to quantise")
        self.assertEqual(self.leftovers(), [])

    def test_a_number_that_is_none(self):
        file = Gguf(GOLDEN)
        at = file.tensors["blk.1.ffn_up.weight"][1]
        file.bytes[at + 2 * 300:at + 2 * 300 + 2] = b"\x00\x7e"
        broken = self.write("nan.gguf", file.bytes)
        self.assert_fails(
            run("quantize", broken, self.folder / "out.gguf", "Q4_K_M"),
            "nan.gguf", '"blk.1.ffn_up.weight"', "row 1, column 44", "nan")
        self.assertEqual(self.leftovers("nan.gguf"), [])

    def test_an_existing_file_survives_a_failure(self):
        kept = self.write("out.gguf", b"precious")
        self.assert_fails(run("quantize", GOLDENS / "llama-gqa-Q8_0.gguf",
                              kept, "Q4_0"), "--allow-requantize")
        self.assertEqual(pathlib.Path(kept).read_bytes(), b"precious")


if __name__ == "__main__":
    cli_support.main()
