#!/usr/bin/env python3
"""`thermocline convert`: folders of every family, and what is refused."""

import array
import json
import pathlib
import random
import struct
import unittest

import cli_support
from cli_support import CliTest, floats, run

WIDTH, FFN, VOCAB, CONTEXT = 64, 96, 12, 32


def safetensors(tensors):
    """The container with F32 data; `tensors` are shapes by name."""
    numbers = random.Random(7)
    header, data = {}, b""
    for name, shape in tensors.items():
        size = 1
        for extent in shape:
            size *= extent
        values = array.array("f", (numbers.gauss(0, 0.1) for _ in range(size)))
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + 4 * size]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def llama_ffn():
    return {f"mlp.{name}_proj.weight": shape
            for name, shape in (("gate", [FFN, WIDTH]), ("up", [FFN, WIDTH]),
                                ("down", [WIDTH, FFN]))}


def mixtral_ffn(experts):
    tensors = {"block_sparse_moe.gate.weight": [experts, WIDTH]}
    for e in range(experts):
        tensors[f"block_sparse_moe.experts.{e}.w1.weight"] = [FFN, WIDTH]
        tensors[f"block_sparse_moe.experts.{e}.w2.weight"] = [WIDTH, FFN]
        tensors[f"block_sparse_moe.experts.{e}.w3.weight"] = [FFN, WIDTH]
    return tensors


def llama(ffn=None):
    tensors = {"model.embed_tokens.weight": [VOCAB, WIDTH],
               "model.norm.weight": [WIDTH], "lm_head.weight": [VOCAB, WIDTH]}
    layer = {"input_layernorm.weight": [WIDTH],
             "post_attention_layernorm.weight": [WIDTH],
             "self_attn.q_proj.weight": [WIDTH, WIDTH],
             "self_attn.k_proj.weight": [WIDTH // 2, WIDTH],
             "self_attn.v_proj.weight": [WIDTH // 2, WIDTH],
             "self_attn.o_proj.weight": [WIDTH, WIDTH], **(ffn or llama_ffn())}
    tensors.update({f"model.layers.0.{n}": s for n, s in layer.items()})
    return tensors


def qwen2():
    return {**llama(), **{
        f"model.layers.0.self_attn.{part}_proj.bias": [rows]
        for part, rows in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2))}}


def falcon(two_norms):
    tensors = {"transformer.word_embeddings.weight": [VOCAB, WIDTH]}
    norms = ["ln_f"] + (["h.0.ln_attn", "h.0.ln_mlp"] if two_norms
                        else ["h.0.input_layernorm"])
    for norm in norms:
        tensors[f"transformer.{norm}.weight"] = [WIDTH]
        tensors[f"transformer.{norm}.bias"] = [WIDTH]
    layer = "transformer.h.0."
    kv_heads = 2 if two_norms else 1
    tensors[layer + "self_attention.query_key_value.weight"] = [
        (4 + 2 * kv_heads) * WIDTH // 4, WIDTH]
    tensors[layer + "self_attention.dense.weight"] = [WIDTH, WIDTH]
    tensors[layer + "mlp.dense_h_to_4h.weight"] = [4 * WIDTH, WIDTH]
    tensors[layer + "mlp.dense_4h_to_h.weight"] = [WIDTH, 4 * WIDTH]
    return tensors


def opt():
    decoder = "model.decoder."
    tensors = {decoder + "embed_tokens.weight": [VOCAB, WIDTH],
               decoder + "embed_positions.weight": [CONTEXT + 2, WIDTH]}
    linears = {"final_layer_norm": [WIDTH]}
    for name, shape in (("self_attn_layer_norm", [WIDTH]),
                        ("final_layer_norm", [WIDTH]),
                        ("self_attn.q_proj", [WIDTH, WIDTH]),
                        ("self_attn.k_proj", [WIDTH, WIDTH]),
                        ("self_attn.v_proj", [WIDTH, WIDTH]),
                        ("self_attn.out_proj", [WIDTH, WIDTH]),
                        ("fc1", [FFN, WIDTH]), ("fc2", [WIDTH, FFN])):
        linears["layers.0." + name] = shape
    for name, shape in linears.items():
        tensors[decoder + name + ".weight"] = shape
        tensors[decoder + name + ".bias"] = shape[:1]
    return tensors


def config(class_name, **more):
    return {"architectures": [class_name], "hidden_size": WIDTH,
            "num_hidden_layers": 1, "num_attention_heads": 4,
            "vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2, **more}


def llama_config(class_name, act="silu", **more):
    return config(class_name, intermediate_size=FFN, num_key_value_heads=2,
                  max_position_embeddings=CONTEXT, rms_norm_eps=1e-5,
                  hidden_act=act, **more)


FALCON = config("FalconForCausalLM", multi_query=True,
                activation="gelu_pytorch_tanh")
OPT = config("OPTForCausalLM", ffn_dim=FFN, max_position_embeddings=CONTEXT,
             activation_function="relu")
MIXTRAL = llama_config("MixtralForCausalLM", num_local_experts=3,
                       num_experts_per_tok=2)
# GGUF's name, config.json, tensors, activation
FAMILIES = (
    ("llama", llama_config("LlamaForCausalLM"), llama(), "silu"),
    ("llama", llama_config("MistralForCausalLM", "relu"), llama(), "relu"),
    ("llama", MIXTRAL, llama(mixtral_ffn(3)), "silu"),
    ("qwen2", llama_config("Qwen2ForCausalLM"), qwen2(), "silu"),
    ("bamboo", llama_config("BambooForCausalLM", "relu"), llama(), "drelu"),
    ("prosparse-llama",
     llama_config("SparseLlamaForCausalLM", "fatrelu", hidden_act_param=0.01),
     llama(), "fatrelu"),
    ("falcon", FALCON, falcon(False), "gelu"),
    ("falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2},
     falcon(True), "gelu"),
    ("opt", OPT, opt(), "relu"),
)

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False,
              "use_regex": True}
TOKENIZER = {
    "added_tokens": [{"id": i, "content": text, "special": True}
                     for i, text in enumerate(("<unk>", "<s>", "</s>"))],
    "pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL,
    "model": {"type": "BPE", "merges": ["a b"],
              "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4,
                        "ab": 5, "\u0120": 6}}}


def varint(number):
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7f | 0x80])
        number >>= 7
    return encoded + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def sentencepiece(model_type=2):
    """A tokenizer.model of nine pieces."""
    file = b""
    for text, score, kind in (("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3),
                              ("<0x0A>", 0, 6), ("\u2581", -4, 1),
                              ("a", -5, 1), ("b", -6, 1), ("\u2581a", -1, 1),
                              ("ab", -2, 1)):
        file += field(1, field(1, text.encode()) + b"\x15" +
                      struct.pack("<f", score) + b"\x18" + varint(kind))
    return file + field(2, b"\x18" + varint(model_type)) + field(3, b"\x20\x00")


class ConvertTest(CliTest):

    def setUp(self):
        super().setUp()
        self.model = self.folder / "hf"
        self.model.mkdir()
        self.out = self.folder / "out.gguf"

    def put(self, name, content):
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        (self.model / name).write_bytes(content)

    def put_model(self, settings, tensors):
        self.put("config.json", settings)
        self.put("model.safetensors", safetensors(tensors))
        self.put("tokenizer.json", TOKENIZER)

    def convert(self, *more):
        return run("convert", self.model, "-o", self.out, *more)

    def inspect(self):
        return json.loads(self.assert_ok(run("inspect", self.out, "--json")))

    def tokens(self, text):
        return self.assert_ok(run("tokenize", "-m", self.out, stdin=text)
                              ).decode().split()

    def refused(self, *parts):
        self.assert_fails(self.convert(), *parts)
        self.assertEqual(self.leftovers("hf"), [])


class FamiliesTest(ConvertTest):

    def test_every_family_converts_and_runs(self):
        for name, settings, tensors, activation in FAMILIES:
            with self.subTest(settings["architectures"][0]):
                self.put_model(settings, tensors)
                self.assertIn(b"wrote", self.assert_ok(self.convert()))
                report = self.inspect()
                self.assertTrue(report["runs"], report["reason"])
                self.assertEqual(report["architecture"], name)
                self.assertEqual(report["ffn"]["activation"], activation)
                logits = self.folder / "logits.f32"
                self.assert_ok(run("eval", "logits", "-m", self.out,
                                   "--tokens", "1,3,4", "-o", logits))
                values = floats(logits.read_bytes())
                self.assertEqual(len(values), 3 * VOCAB)
                self.assertGreater(max(values), min(values))

    def test_type_has_llama_cpps_name_too(self):
        self.put_model(FAMILIES[0][1], FAMILIES[0][2])
        self.assert_ok(self.convert("--outtype", "q8_0"))
        self.assertEqual(self.inspect()["quantisation"]["ffn"][0]["type"],
                         "Q8_0")


class TokenizersTest(ConvertTest):

    def setUp(self):
        super().setUp()
        self.put_model(FAMILIES[0][1], FAMILIES[0][2])

    def test_tokenizer_json(self):
        self.assert_ok(self.convert())
        self.assertEqual(self.tokens(b"ab a"), ["5", "6", "3"])

    def test_standard_output_holds_the_file_alone(self):
        self.assert_ok(self.convert())
        result = run("convert", self.model, "-o", "/dev/stdout")
        self.assertEqual(self.assert_ok(result), self.out.read_bytes())
        self.assertIn(b"wrote /dev/stdout", result.stderr)
        log = self.write("log", b"old\n")
        with open(log, "ab") as file:
            self.assert_ok(run("convert", self.model, "-o", "/dev/stdout",
                               stdout=file))
        self.assertEqual(pathlib.Path(log).read_bytes(),
                         b"old\n" + self.out.read_bytes())

    def test_sentencepiece(self):
        self.put("tokenizer.model", sentencepiece())
        self.assert_ok(self.convert())
        self.assertEqual(self.tokens(b"ab\na"),
                         ["1", "7", "6", "3", "5"])

    def test_vocab_json_and_merges(self):
        self.put_model(OPT, opt())
        (self.model / "tokenizer.json").unlink()
        self.put("vocab.json", TOKENIZER["model"]["vocab"])
        self.put("merges.txt", b"#version: 0.2\na b\n")
        self.put("special_tokens_map.json", {"bos_token": "</s>"})
        self.assert_ok(self.convert())
        self.assertEqual(self.tokens(b"ab"), ["2", "5"])

    def test_chat_template(self):
        self.put("chat_template.jinja", b"{{ bos_token }}")
        self.assert_ok(self.convert())
        self.assertIn(b"{{ bos_token }}", self.out.read_bytes())

    def test_refused(self):
        self.put("tokenizer.model", sentencepiece(model_type=1))
        self.refused("tokenizer.model", "unigram")
        self.put("tokenizer.model", sentencepiece()[:40])
        self.refused("tokenizer.model", "at byte")
        (self.model / "tokenizer.model").unlink()
        self.put("tokenizer.json", {**TOKENIZER,
                                    "pre_tokenizer": {"type": "Sequence",
                                                      "pretokenizers": [
                                                          {"type": "Digits"},
                                                          BYTE_LEVEL]}})
        self.refused("tokenizer.json", "unknown pre-tokenizer", "digits")
        self.put("tokenizer.json", {**TOKENIZER,
                                    "pre_tokenizer": {"type": "Whitespace"}})
        self.refused("tokenizer.json", 'unknown pre-tokenizer: "Whitespace"')
        tokens = {**TOKENIZER["model"]["vocab"], "extra": VOCAB}
        self.put("tokenizer.json", {**TOKENIZER, "model": {
            **TOKENIZER["model"], "vocab": tokens}})
        self.refused("tokenizer.json", f"id {VOCAB}", f"{VOCAB} rows")
        (self.model / "tokenizer.json").unlink()
        self.refused("no tokenizer", "tokenizer.json")


class RefusedFoldersTest(ConvertTest):

    def test_unknown_architecture(self):
        self.put_model(config("GemmaForCausalLM"), llama())
        self.refused("config.json", '"GemmaForCausalLM"', "mixtral")

    def test_blocks_that_are_not_built(self):
        self.put_model({**OPT, "do_layer_norm_before": False}, opt())
        self.refused("config.json", "do_layer_norm_before")
        self.put_model({**FALCON, "alibi": True}, falcon(False))
        self.refused("config.json", "alibi")

    def test_experts_that_lie(self):
        tensors = llama(mixtral_ffn(3))
        del tensors["model.layers.0.block_sparse_moe.experts.1.w2.weight"]
        self.put_model(MIXTRAL, tensors)
        self.refused("experts.1.w2.weight")
        self.put_model({**MIXTRAL, "num_experts_per_tok": 4},
                       llama(mixtral_ffn(3)))
        self.refused("config.json", "num_experts_per_tok")

    def test_shards(self):
        tensors = llama()
        names = sorted(tensors)
        parts = {"1.safetensors": names[:5], "2.safetensors": names[5:]}
        self.put_model(FAMILIES[0][1], tensors)
        (self.model / "model.safetensors").unlink()
        where = {n: part for part, some in parts.items() for n in some}
        self.put("model.safetensors.index.json", {"weight_map": where})
        self.put("1.safetensors", safetensors(
            {n: tensors[n] for n in parts["1.safetensors"]}))
        self.refused("2.safetensors")
        self.put("2.safetensors", safetensors(
            {n: tensors[n] for n in parts["2.safetensors"][1:]}))
        self.refused("2.safetensors", parts["2.safetensors"][0], "index.json")
        self.put("2.safetensors", safetensors(
            {**{n: tensors[n] for n in parts["2.safetensors"]},
             "stray": [2]}))
        self.refused('2.safetensors: tensor "stray"', "index.json")
        self.put("2.safetensors", safetensors(
            {n: tensors[n] for n in parts["2.safetensors"]}))
        self.assert_ok(self.convert())

    def test_pointers_of_git_lfs(self):
        """What 'git clone' leaves where Git LFS is missing."""
        pointer = (b"version https://git-lfs.github.com/spec/v1\n"
                   b"oid sha256:" + 64 * b"0" + b"\nsize 12345\n")
        for name in ("model.safetensors", "tokenizer.json", "tokenizer.model"):
            with self.subTest(name):
                self.put_model(FAMILIES[0][1], llama())
                self.put(name, pointer)
                self.refused(f"{name}: is a Git LFS pointer", "git lfs pull")

    def test_links_that_lead_nowhere(self):
        """What a download's cache has lost is not taken for absent."""
        for name in ("model.safetensors", "model.safetensors.index.json",
                     "generation_config.json", "tokenizer.json",
                     "tokenizer_config.json", "chat_template.jinja"):
            with self.subTest(name):
                self.put_model(FAMILIES[0][1], llama())
                if "index" in name:
                    (self.model / "model.safetensors").unlink()
                path = self.model / name
                path.unlink(missing_ok=True)
                path.symlink_to("lost")
                self.refused(f"{name}: cannot open: No such file")
                path.unlink()

    def test_weights_of_pytorch(self):
        self.put_model(FAMILIES[0][1], llama())
        (self.model / "model.safetensors").unlink()
        self.put("pytorch_model.bin", b"PK")
        self.refused("pytorch_model.bin", "model.safetensors")


if __name__ == "__main__":
    cli_support.main()
