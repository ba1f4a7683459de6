#!/usr/bin/env python3
"""Makes the test data of a build folder: links to what testdata/ stores, and
the files that follow from those.

make_testdata.py STORED OUTPUT MAKE_GOLDENS...

STORED is testdata/; the folder OUTPUT is made anew; MAKE_GOLDENS is the program
of that name, behind an emulator if it needs one. Whatever is made has the
SHA-256 that STORED/made.sha256 gives for the original file, and for each of its
tensors; what differs is named, and the exit code 1. Needs nothing but Python's
standard library.
"""

import array
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

from gguf_bytes import Gguf

KINDS = {"i32": (5, "i"), "u32": (4, "I"), "f32": (6, "f"), "bool": (7, "?"),
         "string": (8, None)}
SUMS = "made.sha256"
# OPT's dictionary has these before and after the tokens of GPT-2.
OPT_FIRST = ("<s>", "<pad>", "</s>", "<unk>")
OPT_LAST = ("madeupword0000", "madeupword0001", "madeupword0002", "<mask>")


def link_stored(stored, output):
    """Links to all that is stored, but for the fuzzers' seeds: no test reads
    them. What was there before goes, before anything could write through it."""
    shutil.rmtree(output, ignore_errors=True)
    for folder, subfolders, files in os.walk(stored):
        if pathlib.Path(folder) == stored:
            subfolders.remove("fuzz")
        there = output / pathlib.Path(folder).relative_to(stored)
        there.mkdir(parents=True)
        for file in files:
            (there / file).symlink_to(pathlib.Path(folder) / file)


def gpt2_tokens(merges):
    """GPT-2's vocabulary follows from its merges: a character for every byte,
    the printable ones first, then what each merge makes."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    num_others = 256 - len(printable)
    bytes_first = map(chr, [*printable, *range(256, 256 + num_others)])
    return [*bytes_first, *(m.replace(" ", "") for m in merges),
            "<|endoftext|>"]


def opt_vocabulary(tokens, gpt2_ids):
    """vocab.json of OPT: the tokens of GPT-2 in another order."""
    order = [*OPT_FIRST, *(tokens[i] for i in gpt2_ids), *OPT_LAST]
    ids = {token: i for i, token in enumerate(order)}
    return json.dumps(ids, ensure_ascii=False).encode()


def pack(kind, value):
    """One value as GGUF writes it."""
    code, layout = KINDS[kind]
    if layout is not None:
        return struct.pack("<" + layout, value)
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_file(keys):
    """A GGUF file of keys alone: (key, kind, value or list of values)."""
    out = [b"GGUF", struct.pack("<IQQ", 3, 0, len(keys))]
    for key, kind, value in keys:
        out.append(pack("string", key))
        code = KINDS[kind][0]
        if isinstance(value, list):
            out.append(struct.pack("<IIQ", 9, code, len(value)))
            out += [pack(kind, elem) for elem in value]
        else:
            out += [struct.pack("<I", code), pack(kind, value)]
    return b"".join(out)


def vocabulary(description, lists):
    """A file of a vocabulary from its description: keys in their order. A list
    is one of `lists`, changed here and there, with more at its end."""
    keys = []
    for key, kind, value in json.loads(description.read_text()):
        if isinstance(value, dict):
            elems = list(lists[value["list"]])
            for i, elem in value.get("changed", {}).items():
                elems[int(i)] = elem
            value = elems + value.get("more", [])
        keys.append((key, kind, value))
    return gguf_file(keys)


def make_vocabularies(stored, output):
    merges = (stored / "gpt2/merges.txt").read_text("utf-8").split("\n")[1:-1]
    tokens = gpt2_tokens(merges)
    (output / "ggml-vocab-gpt-2.gguf").write_bytes(vocabulary(
        stored / "ggml-vocab-gpt-2.json",
        {"merges": merges, "tokens": tokens, "types": [1] * len(tokens)}))

    llama = Gguf(stored / "ggml-vocab-llama-spm.gguf")
    (output / "ggml-vocab-phi-3.gguf").write_bytes(vocabulary(
        stored / "ggml-vocab-phi-3.json",
        {name: llama.value("tokenizer.ggml." + name)
         for name in ("tokens", "scores", "token_type")}))

    ids = array.array("H")
    ids.frombytes((stored / "opt/gpt2-ids.u16").read_bytes())
    if sys.byteorder == "big":
        ids.byteswap()
    (output / "opt/gpt2-vocab.json").write_bytes(opt_vocabulary(tokens, ids))

    # Every vocabulary was given the same texts.
    for ids_of_texts in stored.glob("ggml-vocab-*.gguf.out"):
        link = output / ids_of_texts.with_suffix(".inp").name
        link.symlink_to(stored / "ggml-vocab.inp")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def read_sums(stored):
    """file -> {tensor, or "" for the whole file: SHA-256}."""
    sums = {}
    for line in (stored / SUMS).read_text().splitlines():
        if line and not line.startswith("#"):
            value, file, tensor = (line + " ").split(" ", 2)
            sums.setdefault(file, {})[tensor.strip()] = value
    return sums


def first_difference(path, sums):
    """Where the file is not the one whose sums these are; None: nowhere."""
    if digest(path.read_bytes()) == sums[""]:
        return None
    if path.suffix == ".gguf":
        for name, _, data in Gguf(path).tensor_bytes():
            if digest(data) != sums.get(name):
                return f'tensor "{name}"'
    return "what is around the tensors" if len(sums) > 1 else "the file"


def check(output, sums):
    """Lines that say what is not as the original was."""
    found = []
    for file, expected in sums.items():
        if not (output / file).is_file():
            found.append(f"{file} is not there")
        elif where := first_difference(output / file, expected):
            found.append(f"{file}: {where} is not the original's, whose sum "
                         f"is in testdata/{SUMS}")
    return found


def main(stored, output, make_goldens):
    stored, output = pathlib.Path(stored).resolve(), pathlib.Path(output)
    link_stored(stored, output)
    subprocess.run([*make_goldens, stored / "golden", output / "golden"],
                   check=True)
    make_vocabularies(stored / "tokenizers", output / "tokenizers")
    found = check(output, read_sums(stored))
    for line in found:
        print(f"make_testdata.py: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
