#!/usr/bin/env python3
"""Writes a GGUF file with random weights and the shape of a known model, for
measuring speed: what a dense engine does not depend on what weights say.

  bench/make_model.py --like llama-1b --type q4_0 -o llama-1b-q4_0.gguf

Weights are random bits with scales that keep activations near one, so that
every engine takes the file for a real one. The same arguments give the same
bytes. `mixed` types, as in Q4_K_M, are not made: every matrix has one type, but
the head, which is Q6_K in q4_0 and q4_k files, as quantisers leave it.
"""

import argparse
import random
import struct
import sys

# D, F, L, heads, KV heads, V
SHAPES = {
    "tiny": (256, 512, 2, 4, 2, 320),
    "llama-1b": (2048, 5632, 22, 16, 16, 32000),
    "llama-1b-gqa": (2048, 5632, 22, 32, 4, 32000),
    "llama-7b": (4096, 11008, 32, 32, 32, 32000),
}

ALIGNMENT = 32
CHUNK_BLOCKS = 1 << 16


def half(value):
    return struct.pack("<e", value)


class Type:
    """A ggml type: id, elements and bytes of a block, and where its halves lie.

    rms is that of the stored integers (of d * scale * q, for K types), from
    which the scale of a weight follows.
    """

    def __init__(self, type_id, elems, size, rms, halves):
        self.id, self.elems, self.size = type_id, elems, size
        self.rms, self.halves = rms, halves

    def num_bytes(self, count):
        return count // self.elems * self.size

    def random_blocks(self, rng, count, deviation):
        data = bytearray(rng.randbytes(count * self.size))
        for offset, share in self.halves:
            low, high = half(share * deviation / self.rms)
            data[offset :: self.size] = bytes([low]) * count
            data[offset + 1 :: self.size] = bytes([high]) * count
        return data


class Float16(Type):
    """Random sign and mantissa; the exponent that the deviation has, or the one
    that differs from it in the lowest bit."""

    def __init__(self):
        super().__init__(1, 1, 2, 1.0, [])

    def random_blocks(self, rng, count, deviation):
        data = bytearray(rng.randbytes(count * 2))
        exponent = half(deviation)[1] & 0x7C
        # Keep the sign, the lowest bit of the exponent, and two of mantissa.
        table = bytes((exponent & 0x78) | (b & 0x87) for b in range(256))
        data[1::2] = data[1::2].translate(table)
        return data


class Float32(Type):
    def __init__(self):
        super().__init__(0, 1, 4, 1.0, [])

    def random_blocks(self, rng, count, deviation):
        return bytearray(struct.pack("<f", 1.0) * count)  # norms


# Offsets of d (and dmin, chosen so that weights are about symmetric).
TYPES = {
    "f16": Float16(),
    "q4_0": Type(2, 32, 18, 4.6, [(0, 1.0)]),
    "q8_0": Type(8, 32, 34, 74.0, [(0, 1.0)]),
    "q4_k": Type(12, 256, 144, 207.0, [(0, 1.0), (2, 7.5)]),
    "q5_k": Type(13, 256, 176, 430.0, [(0, 1.0), (2, 15.5)]),
    "q6_k": Type(14, 256, 210, 1370.0, [(208, 1.0)]),
}
NORM = Float32()


def tensors(shape, main, head):
    width, ffn, layers, heads, kv_heads, vocab = shape
    kv_width = width // heads * kv_heads
    yield "token_embd.weight", main, width, vocab
    yield "output_norm.weight", NORM, width, 1
    yield "output.weight", head, width, vocab
    for layer in range(layers):
        prefix = f"blk.{layer}."
        yield prefix + "attn_norm.weight", NORM, width, 1
        yield prefix + "attn_q.weight", main, width, width
        yield prefix + "attn_k.weight", main, width, kv_width
        yield prefix + "attn_v.weight", main, width, kv_width
        yield prefix + "attn_output.weight", main, width, width
        yield prefix + "ffn_norm.weight", NORM, width, 1
        yield prefix + "ffn_gate.weight", main, width, ffn
        yield prefix + "ffn_up.weight", main, width, ffn
        yield prefix + "ffn_down.weight", main, ffn, width


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, payload):
    return string(key) + struct.pack("<I", kind) + payload


U32, F32, STRING, ARRAY = 4, 6, 8, 9


def array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def metadata(name, shape, context):
    width, ffn, layers, heads, kv_heads, vocab = shape
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += [f"\u2581w{i}" for i in range(len(pieces), vocab)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (vocab - 259)
    numbers = {
        "context_length": context,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": ffn,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "rope.dimension_count": width // heads,
        "vocab_size": vocab,
    }
    entries = [
        entry("general.architecture", STRING, string("llama")),
        entry("general.name", STRING, string(f"{name}, random weights")),
        entry("general.alignment", U32, struct.pack("<I", ALIGNMENT)),
        entry("general.quantization_version", U32, struct.pack("<I", 2)),
    ]
    for key, value in numbers.items():
        entries.append(entry("llama." + key, U32, struct.pack("<I", value)))
    entries += [
        entry(
            "llama.attention.layer_norm_rms_epsilon",
            F32,
            struct.pack("<f", 1e-5),
        ),
        entry("tokenizer.ggml.model", STRING, string("llama")),
        entry(
            "tokenizer.ggml.tokens", ARRAY, array(STRING, map_list(string, pieces))
        ),
        entry(
            "tokenizer.ggml.scores",
            ARRAY,
            array(F32, [struct.pack("<f", -float(i)) for i in range(vocab)]),
        ),
        entry(
            "tokenizer.ggml.token_type",
            ARRAY,
            array(5, [struct.pack("<i", kind) for kind in kinds]),
        ),
        entry("tokenizer.ggml.bos_token_id", U32, struct.pack("<I", 1)),
        entry("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 2)),
    ]
    return entries


def map_list(function, items):
    return [function(item) for item in items]


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def write_tensor(out, rng, dtype, width, rows):
    deviation = width**-0.5
    blocks = width * rows // dtype.elems
    size = 0
    while blocks > 0:
        count = min(blocks, CHUNK_BLOCKS)
        size += out.write(dtype.random_blocks(rng, count, deviation))
        blocks -= count
    out.write(bytes(padded(size) - size))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--like", choices=SHAPES, required=True)
    parser.add_argument("--type", choices=TYPES, required=True)
    parser.add_argument("--context", type=int, default=32768)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()

    shape = SHAPES[args.like]
    main_type = TYPES[args.type]
    head = TYPES["q6_k"] if args.type in ("q4_0", "q4_k") else main_type
    listed = list(tensors(shape, main_type, head))
    entries = metadata(args.like, shape, args.context)
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(entries))
    header += b"".join(entries)
    offset = 0
    for name, dtype, width, rows in listed:
        dims = [width] if dtype is NORM else [width, rows]
        header += string(name) + struct.pack("<I", len(dims))
        header += struct.pack(f"<{len(dims)}Q", *dims)
        header += struct.pack("<IQ", dtype.id, offset)
        offset += padded(dtype.num_bytes(width * rows))
    header += bytes(padded(len(header)) - len(header))

    rng = random.Random(args.seed)
    with open(args.output, "wb") as out:
        out.write(header)
        for i, (_, dtype, width, rows) in enumerate(listed):
            write_tensor(out, rng, dtype, width, rows)
            if sys.stderr.isatty():
                print(f"\r{i + 1} of {len(listed)} tensors", end="",
                      file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)


if __name__ == "__main__":
    main()
