#!/usr/bin/env python3
"""Models with predictors of which neurons fire, as a user runs them."""

import json
import resource
import struct

import cli_support
from cli_support import DATA, GOLDEN, IS_SANITIZED, Gguf, floats, nmse, run

FOLDER = DATA / "golden-powerinfer"
LLAMA = str(FOLDER / "llama-f16.powerinfer.gguf")
WITH_THRESHOLD = str(FOLDER / "llama-thr-f16.powerinfer.gguf")
LAYERS, NEURONS, VOCABULARY = 2, 1024, 320


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def split_file(magic, keys, vectors):
    """A split file: keys as (name, type, bytes), vectors of I32 by name."""
    head = magic + struct.pack("<IQQ", 3, len(vectors), len(keys))
    for key, kind, value in keys:
        head += text(key) + struct.pack("<I", kind) + value
    data = b""
    for name, values in vectors.items():
        head += text(name) + struct.pack("<IQIQ", 1, len(values), 26, len(data))
        data += struct.pack(f"<{len(values)}i", *values)
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


def order_file(layers=LAYERS, neurons=NEURONS):
    """KAIROX's: an order of the neurons that takes every seventh next."""
    keys = [("general.architecture", 8, text("prosparse-llama")),
            ("ffn_group_size", 5, struct.pack("<i", 16)),
            ("ffn_normalized_pattern", 9,
             struct.pack(f"<IQ{layers}f", 6, layers, *[1 / layers] * layers))]
    order = [place * 7 % neurons for place in range(neurons)]
    return split_file(b"GGUF", keys, {f"blk.{i}.ffn_reorder_perms": order
                                      for i in range(layers)})


def hot_file():
    """PowerInfer's: the first 256 neurons of every layer on a GPU."""
    keys = [("general.architecture", 8, text("generic.gpu_index")),
            ("generic.gpu_index.block_count", 4, struct.pack("<I", LAYERS)),
            ("split.vram_capacity", 10, struct.pack("<Q", 1 << 30))]
    vectors = {}
    for i in range(LAYERS):
        vectors[f"blk.{i}.gpu_idx"] = [1] * 256 + [0] * (NEURONS - 256)
        vectors[f"blk.{i}.gpu_bucket"] = list(range(256))
    return split_file(b"PWRI", keys, vectors)


class SparseTest(cli_support.CliTest):
    def logits(self, *args, model=LLAMA, tokens=range(1, 9)):
        out = self.folder / "logits"
        self.assert_ok(run("eval", "logits", "-m", model, "--tokens",
                           ",".join(map(str, tokens)), "-o", out, *args))
        return floats(out.read_bytes())

    def test_small_stacks(self):
        if IS_SANITIZED:
            self.skipTest("a sanitizer's frames are larger")

        def limit():
            _, most = resource.getrlimit(resource.RLIMIT_STACK)
            resource.setrlimit(resource.RLIMIT_STACK, (128 << 10, most))
        for threads in (1, 2):
            for ffn in ("exact", "fast"):
                args = ("run", "-m", LLAMA, "-p", "Once", "-n", 4, "--ffn", ffn,
                        "-t", threads, "--temp", 0)
                self.assertEqual(self.assert_ok(run(*args, preexec_fn=limit)),
                                 self.assert_ok(run(*args)))

    def test_predictors_that_are_not_finite(self):
        for name in ("blk.0.fc1.weight", "blk.1.fc2.weight"):
            with self.subTest(tensor=name):
                model = Gguf(LLAMA)
                _, data_at = model.tensors[name]
                struct.pack_into("<H", model.bytes, data_at, 0x7e00)  # F16 NaN
                path = self.write("nan.gguf", model.bytes)
                logits = ["eval", "logits", "-m", path, "--tokens", "1,2",
                          "-o", "/dev/null", "--ffn"]
                for more in ([], ["--one-by-one"]):
                    self.assert_fails(run(*logits, "fast", *more), path,
                                      f"layer {name[4]}: a predictor's scores "
                                      "are not finite")
                self.assert_fails(run(*logits, "fast", "--check-tensors"), name)
                # Nobody asks them there.
                self.assert_ok(run(*logits, "exact"))

    def test_files_run_as_powerinfer_runs_them(self):
        manifest = json.loads((FOLDER / "manifest.json").read_text())
        self.assertEqual(len(manifest), 5)
        for entry in manifest:
            want = floats((FOLDER / entry["logits"]).read_bytes())
            got = self.logits(model=FOLDER / entry["model"],
                              tokens=entry["tokens"])
            self.assertLessEqual(nmse(got, want), 2e-3, entry["model"])

    def test_modes(self):
        fast = self.logits()
        self.assertEqual(self.logits("--ffn", "auto"), fast)
        self.assertEqual(self.logits("--ffn", "fast", "-t", "1", "-b", "1"),
                         fast)
        dense = self.logits("--ffn", "dense")
        self.assertGreater(nmse(dense, fast), 1e-2)
        # With every neuron a candidate, fast is dense up to rounding.
        every = self.logits("--sparse-threshold", "-1e30")
        self.assertLess(nmse(every, dense), 1e-10)

    def test_exact_and_free(self):
        dense = self.logits("--ffn", "dense")
        exact = self.logits("--ffn", "exact")
        self.assertLess(nmse(exact, dense), 1e-10)
        self.assertEqual(self.logits("--predictor", "none"), exact)
        self.assertEqual(self.logits("--ffn", "exact", "-t", "1", "-b", "3"),
                         exact)
        free = self.logits("--predictor", "free")
        self.assertNotEqual(free, exact)
        self.assertEqual(
            self.logits("--ffn", "fast", "--predictor", "free", "-b", "1"),
            free)
        self.assertEqual(self.logits("--predictor", "trained"), self.logits())

    def test_prompts_are_dense_unless_asked(self):
        def run_tokens(*args):
            result = run("run", "-m", LLAMA, "-p", "one two three four five "
                         "six seven eight", "-n", "4", "--temp", "0", *args)
            self.assert_ok(result)
            return result
        self.assertIn(b", prompts dense, ", run_tokens().stderr)
        same = run_tokens("--prefill", "same")
        self.assertNotIn(b"prompts dense", same.stderr)
        self.assertRegex(same.stderr, rb"tok/s  [0-9.]+ [KM]iB per token")
        self.assert_fails(run("run", "-m", LLAMA, "-p", "a", "--prefill", "x"),
                          "dense, same", code=2)

    def test_modes_that_do_not_fit(self):
        for args, parts in [
                (("--ffn", "exact"), ("silu", "--ffn threshold")),
                (("--ffn", "threshold"), ("no thresholds", "prepare")),
                (("--predictor", "trained"), ("silu", "--ffn threshold")),
                (("--ffn", "dense", "--predictor", "free"), ("--ffn fast",))]:
            self.assert_fails(
                run("run", "-m", GOLDEN, "-p", "a", "-n", "1", *args), *parts)
        self.assert_fails(
            run("run", "-m", LLAMA, "-p", "a", "--ffn", "threshold"),
            "relu", "--ffn exact")
        # Scores that nobody asks for.
        out = self.folder / "out"
        for command in (("run", "-p", "a"), ("bench",),
                        ("eval", "logits", "--tokens", 1, "-o", out),
                        ("eval", "ppl", "-f", "-"), ("eval", "mc", "-f", "-"),
                        ("eval", "sparsity", "-f", "-")):
            for args in (("--ffn", "dense"), ("--ffn", "exact"),
                         ("--predictor", "free")):
                self.assert_fails(
                    run(*command, "-m", LLAMA, "--sparse-threshold", 1, *args),
                    "--sparse-threshold: has no effect", code=2)
        for command in (("profile", "--corpus", "-"), ("train", "--corpus", "-"),
                        ("prepare", "--corpus", "-"), ("trace", "-f", "-")):
            self.assert_fails(
                run(*command, "-m", LLAMA, "-o", out, "--sparse-threshold", 1),
                "unknown argument", "--sparse-threshold", code=2)
        self.assert_fails(
            run("run", "-m", GOLDEN, "-p", "a", "--predictor", "x"),
            "auto, trained, training-free, none", code=2)

    def test_the_mode_is_printed(self):
        for args, name in [
                ((), b"fast (PowerInfer predictors, threshold 0.4), "),
                (("--sparse-threshold", "0.5"), b"threshold 0.5), "),
                (("--ffn", "dense"), b"dense, "),
                (("--ffn", "exact"), b"exact, prompts dense, "),
                (("--predictor", "free"), b"fast (signs of the weights, ")]:
            result = run("run", "-m", WITH_THRESHOLD, "-p", "a", "-n", "3",
                         "--seed", "1", *args)
            self.assert_ok(result)
            self.assertIn(name, result.stderr)

    def test_a_model_without_predictors(self):
        for args, part in [(("--ffn", "fast"), "brings no predictors"),
                           (("--sparse-threshold", "0"), "the file has none")]:
            self.assert_fails(
                run("run", "-m", GOLDEN, "-p", "a", "-n", "1", *args), part)
        self.assert_fails(run("run", "-m", GOLDEN, "-p", "a", "--ffn", "half"),
                          "--ffn", "auto, dense, exact, fast, threshold", code=2)

    def test_split_files(self):
        plain = self.logits()
        order = self.write("order", order_file())
        ordered = self.logits("--split", order)
        self.assertNotEqual(ordered, plain)  # the order of sums alone
        self.assertLess(nmse(ordered, plain), 1e-10)
        result = run("run", "-m", LLAMA, "-p", "a", "-n", "1", "--split",
                     order)
        self.assertIn(b", groups of ", result.stderr)
        hot = self.write("hot", hot_file())
        self.assertEqual(self.logits("--split", hot), plain)
        result = run("eval", "logits", "-m", LLAMA, "--tokens", "1", "-o",
                     self.folder / "logits", "--split", hot)
        self.assertIn(b"for a GPU", result.stderr)

    def test_split_files_that_do_not_fit(self):
        def refused(path, *parts):
            self.assert_fails(run("run", "-m", LLAMA, "-p", "a", "-n", "1",
                                  "--split", path), *parts)
        refused(self.write("more-layers", order_file(layers=3)),
                "more-layers", "3 elements", "2 layers", "another model?")
        refused(self.write("narrow", order_file(neurons=512)), "narrow",
                "512 elements", "1024 neurons", "another model?")
        refused(LLAMA, "not a split file")
        refused(self.folder / "none", "none")
        refused(self.write("cut", order_file()[:-100]), "cut", "truncated")

    def test_a_predictor_of_another_model(self):
        file = Gguf(LLAMA)
        for name, part in [(b"blk.1.fc1.weight", "blk.1.fc1.weight"),
                           (b"blk.1.fc2.weight", "blk.1.fc2.weight")]:
            data = bytearray(file.bytes)
            at = data.index(name) + len(name) + 4  # behind the rank
            rows, columns = struct.unpack_from("<QQ", data, at)
            # The same bytes as half as many rows that are twice as long.
            struct.pack_into("<QQ", data, at, rows * 2, columns // 2)
            self.assert_fails(
                run("run", "-m", self.write("other", bytes(data)), "-p", "a"),
                part)


if __name__ == "__main__":
    cli_support.main()
