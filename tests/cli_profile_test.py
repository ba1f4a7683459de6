#!/usr/bin/env python3
"""`thermocline profile`, `trace` and `eval sparsity`, as a user runs them."""

import json
import struct
import zlib

import cli_support
from cli_support import DATA, DEMO, GOLDEN, STORIES, Gguf, run

VALID = DATA / "demo/valid.txt"
SPARSE = str(DATA / "golden-powerinfer/bamboo-f16.powerinfer.gguf")
PROMPTS = b"Once upon a time\n\nOne day, a little dog\nLily and Tom\n"


class ProfileTest(cli_support.CliTest):

    def test_densities_of_the_demo_model(self):
        reference = json.loads((DATA / "demo/reference.json").read_text())
        want = reference["valid.txt"]
        path = self.folder / "demo.profile"
        page = self.folder / "demo.html"
        text = self.write("text", VALID.read_bytes()[:20000])
        shown = json.loads(self.assert_ok(
            run("profile", DEMO, "--corpus", text, "-o", path, "--html", page,
                "--json")))
        got = [layer["density"] for layer in shown["layers"]]
        for a, b in zip(got, want["active_share_per_layer"], strict=True):
            self.assertAlmostEqual(a, b, delta=0.02)  # that is of all text
        # The file says the same, to the last bit.
        file = Gguf(path)
        self.assertEqual(len(file.tensors), 6)
        for i, layer in enumerate(shown["layers"]):
            kind_at, at = file.tensors[f"blk.{i}.tc_profile.counts"]
            self.assertEqual(file.bytes[kind_at], 26)  # I32
            counts = struct.unpack_from("<1536i", file.bytes, at)
            self.assertAlmostEqual(sum(counts) / 1536 / shown["tokens"],
                                   layer["density"], delta=1e-12)
            hot = sorted(counts, reverse=True)
            enough = next(n for n in range(1537)
                          if sum(hot[:n]) >= 0.8 * sum(hot))
            self.assertAlmostEqual(enough / 1536, layer["skew"], delta=1e-12)
        self.assertEqual(
            json.loads(self.assert_ok(run("profile", path, "--json"))), shown)
        self.assertIn(b"<svg", page.read_bytes())

    def test_threads_change_nothing(self):
        text = self.write("text", VALID.read_bytes()[:6000])
        outputs = {self.assert_ok(run("profile", SPARSE, "--corpus", text,
                                      "-c", 64, "--json", "-t", threads))
                   for threads in (1, 3)}
        self.assertEqual(len(outputs), 1)

    def test_a_profile_that_is_damaged(self):
        text = self.write("text", VALID.read_bytes()[:6000])
        path = self.folder / "m.profile"
        self.assert_ok(run("profile", SPARSE, "--corpus", text, "-c", 64, "-o",
                           path))
        data = path.read_bytes()
        cut = self.write("cut", data[:-4096])
        self.assert_fails(run("profile", cut), "cut", "truncated")
        file = Gguf(path)
        _, at = file.tensors["blk.1.tc_profile.counts"]
        struct.pack_into("<i", file.bytes, at + 8, -1)
        wrong = self.write("wrong", bytes(file.bytes))
        self.assert_fails(run("profile", wrong), "wrong",
                          "blk.1.tc_profile.counts", "-1 for neuron 2")
        self.assert_fails(run("profile", GOLDEN), "holds no profile")
        # It is no model either.
        self.assert_fails(run("run", "-m", path, "-p", "a", "-n", 1),
                          "thermocline-profile")

    def test_what_cannot_be_profiled(self):
        out = self.folder / "none.profile"
        self.assert_fails(
            run("profile", DEMO, "--corpus", "-", "-o", out,
                stdin=b"Only a few words."),
            "standard input", "too few to learn from", "4096 are needed")
        self.assert_fails(
            run("profile", STORIES, "--corpus", VALID, "-o", out),
            "has no sparsity", "100.0 % of the neurons fire", "silu",
            "thresholds")
        self.assertEqual(self.leftovers(), [])


def read_varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def read_set(data, at, neurons):
    """A set and where it ends, as docs/formats/trace.md has it."""
    head, at = read_varint(data, at)
    members = []
    if head & 1:
        for byte in data[at:at + (neurons + 7) // 8]:
            members.append(byte)
        at += (neurons + 7) // 8
        members = [8 * i + bit for i, byte in enumerate(members)
                   for bit in range(8) if byte >> bit & 1]
    else:
        neuron = -1
        for _ in range(head >> 1):
            gap, at = read_varint(data, at)
            neuron += gap + 1
            members.append(neuron)
    assert len(members) == head >> 1
    return members, at


def read_trace(data):
    """The trace as docs/formats/trace.md has it: a dict of the header's fields
    and of tokens, each a dict of its flags, section and sets."""
    assert data[:8] == b"TC-TRACE"
    version, layers, neurons, _, _, length, flags, experts, lookaheads = (
        struct.unpack_from("<4IQ4I", data, 8))
    assert version == 2
    at = 48 + length
    unit_bytes = []
    if flags & 2:
        unit_bytes = list(struct.unpack_from(f"<{layers}Q", data, at))
        at += 8 * layers
    assert struct.unpack_from("<I", data, at)[0] == zlib.crc32(data[:at])
    at += 4
    tokens = []
    while True:
        size, count = struct.unpack_from("<II", data, at)
        if size == 0:
            break
        end = at + 8 + size
        assert struct.unpack_from("<I", data, end)[0] == zlib.crc32(
            data[at:end])
        at += 8
        for _ in range(count):
            token = {"begins": data[at] & 1, "generated": data[at] >> 1 & 1}
            at += 1
            if token["begins"]:
                length = struct.unpack_from("<H", data, at)[0]
                token["section"] = data[at + 2:at + 2 + length].decode()
                at += 2 + length
            kinds = [("fired", 0, neurons)]
            kinds += [("candidates", 0, neurons)] if flags & 1 else []
            kinds += [("experts", 0, experts)] if experts else []
            kinds += [(k, k, neurons) for k in range(4) if lookaheads >> k & 1]
            for name, first, members in kinds:
                token[name] = [[] for _ in range(min(first, layers))]
                for _ in range(first, layers):
                    one, at = read_set(data, at, members)
                    token[name].append(one)
            tokens.append(token)
        assert at == end
        at += 4
    totals = struct.unpack_from("<QQQ", data, at + 8)
    assert struct.unpack_from("<I", data, at + 32)[0] == zlib.crc32(
        data[at:at + 32])
    assert at + 36 == len(data)
    assert totals == (len(tokens), sum(token["begins"] for token in tokens),
                      sum(len(s) for token in tokens for s in token["fired"]))
    return {"layers": layers, "neurons": neurons, "experts": experts,
            "unit_bytes": unit_bytes, "tokens": tokens}


class TraceTest(cli_support.CliTest):

    def record(self, name, *args, model=DEMO):
        path = self.folder / name
        self.assert_ok(run("trace", "-m", model, "-f", "-", "-o", path, "-n",
                           6, *args, stdin=PROMPTS))
        return path

    def test_the_format_and_the_figures(self):
        path = self.record("m.trace")
        trace = read_trace(path.read_bytes())
        tokens, neurons = trace["tokens"], trace["neurons"]
        self.assertEqual((trace["layers"], neurons, trace["experts"]),
                         (6, 1536, 0))
        self.assertEqual([token["section"] for token in tokens
                          if token["begins"]], ["-:1", "-:3", "-:4"])
        stats = json.loads(self.assert_ok(
            run("trace", "--stats", path, "--json")))
        self.assertEqual(stats["tokens"], len(tokens))
        self.assertEqual(stats["prompts"], 3)
        self.assertEqual(stats["generated"], 3 * 5)
        for i, layer in enumerate(stats["layers"]):
            sets = [(token["begins"], set(token["fired"][i]))
                    for token in tokens]
            self.assertAlmostEqual(layer["density"],
                                   sum(len(s) for _, s in sets) / len(sets) /
                                   neurons)
            pairs = [(now, before)
                     for (_, before), (begins, now) in zip(sets, sets[1:])
                     if not begins]
            shares = [len(now & before) / len(now) for now, before in pairs
                      if now]
            self.assertAlmostEqual(layer["locality"],
                                   sum(shares) / len(shares))
            overlaps = [len(now & before) / len(now | before)
                        for now, before in pairs if now | before]
            self.assertAlmostEqual(layer["jaccard"],
                                   sum(overlaps) / len(overlaps))

    def test_threads_change_nothing(self):
        one = self.record("one", "-t", 1, model=SPARSE).read_bytes()
        self.assertEqual(self.record("two", "-t", 3,
                                     model=SPARSE).read_bytes(), one)

    def test_a_trace_that_is_damaged(self):
        data = self.record("m.trace", "--limit", 1).read_bytes()
        for name, bad in (("cut", data[:-1]), ("half", data[:len(data) // 2]),
                          ("flip", data[:200] + bytes([data[200] ^ 1]) +
                           data[201:])):
            self.assert_fails(run("trace", "--stats", self.write(name, bad)),
                              name)
        self.assert_fails(run("trace", "--stats", VALID), "is no trace")


class SparsityTest(cli_support.CliTest):

    def sparsity(self, model, text, *args):
        return json.loads(self.assert_ok(
            run("eval", "sparsity", "-m", model, "-f", text, "--json", *args)))

    def test_against_eval_kl_and_profile(self):
        text = self.write("text", VALID.read_bytes()[:4000])
        got = self.sparsity(SPARSE, text, "-c", 64)
        self.assertEqual(got["mode"], "fast")
        want = json.loads(self.assert_ok(
            run("eval", "kl", "-m", SPARSE, "-f", text, "-c", 64, "--json",
                "--base-mode", "dense")))
        self.assertEqual(got["divergence"], want)
        self.assertLess(got["recall"], 1)
        self.assertGreater(got["bytes_per_token"],
                           got["predictor_bytes_per_token"])

    def test_exact_misses_nothing(self):
        text = self.write("text", VALID.read_bytes()[:12000])
        got = self.sparsity(DEMO, text, "--ffn", "exact")
        self.assertEqual(got["recall"], 1)
        self.assertEqual(got["candidates"], 1)
        self.assertAlmostEqual(got["density"], got["precision"])
        self.assertAlmostEqual(got["density"], 0.1171, delta=0.02)
        self.assertLess(got["divergence"]["kl"], 1e-5)
        self.assertAlmostEqual(got["divergence"]["ratio"], 1, delta=1e-4)
        # All gates, the up rows of what fires, and a down that lies by rows.
        self.assertAlmostEqual(got["bytes_share"],
                               (2 + got["density"]) / 3, delta=1e-6)


if __name__ == "__main__":
    cli_support.main()
