#!/usr/bin/env python3
"""inspect of the thermocline program: the page, and what it says of files.

See cli_support.py for what the tests share.
"""

import html.parser
import json
import os
import pathlib
import struct
import unittest

from cli_support import DATA, GOLDEN, STORIES, CliTest, Gguf, main, run

VOCABULARY = DATA / "tokenizers/ggml-vocab-gpt-2.gguf"
MODELS = [GOLDEN, STORIES, VOCABULARY,
          DATA / "golden/llama-gqa-Q4_K_M.gguf",
          DATA / "golden/qwen2-bias-f16.gguf",
          DATA / "golden/mixtral-8x2-f16.gguf",
          DATA / "golden-powerinfer/opt-f16.powerinfer.gguf"]
VOID_TAGS = {"meta", "br"}
EVIL = "<script>alert(1)</script><img src=x onerror=\"y\">&'"


class Page(html.parser.HTMLParser):
    """A page taken apart; fails on tags that do not pair."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.tags = []  # (tag, attributes)
        self.tables = {}  # id -> rows of cells; a cell: texts and numbers
        self.texts = []
        self.table = None
        self.feed(text)
        self.close()
        if self.open:
            raise AssertionError(f"open at the end: {self.open}")

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag not in VOID_TAGS:
            self.open.append(tag)
        if tag == "table" and "id" in attrs:
            self.table = self.tables.setdefault(attrs["id"], [])
        elif tag == "tr" and self.table is not None:
            self.table.append([])
        elif tag in ("td", "th") and self.table is not None:
            self.table[-1].append({"text": "", "bytes": None})
        elif tag == "data" and self.table:
            self.table[-1][-1]["bytes"] = int(attrs["value"])

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")
        if tag == "table":
            self.table = None

    def handle_data(self, data):
        self.texts.append(data)
        if self.table and {"td", "th"} & set(self.open):
            self.table[-1][-1]["text"] += data

    def column(self, table, number):
        return [row[number]["bytes"] for row in self.tables[table][1:]]


class InspectHtmlTest(CliTest):

    def page(self, model):
        path = self.folder / "page.html"
        out = self.assert_ok(run("inspect", model, "--html", path))
        self.assertEqual(out, f"wrote {path}\n".encode())
        return path.read_text(encoding="utf-8")

    def report(self, model):
        return json.loads(self.assert_ok(run("inspect", model, "--json")))

    def test_stands_alone(self):
        for model in MODELS:
            with self.subTest(model=model):
                page = Page(self.page(model))
                tags = {tag for tag, _ in page.tags}
                self.assertFalse(tags & {"script", "link", "img", "iframe",
                                         "object", "a", "form", "base"})
                for tag, attrs in page.tags:
                    for name, value in attrs.items():
                        self.assertFalse(name.startswith("on"), (tag, name))
                        self.assertNotIn(name, ("src", "href", "style"))
                        self.assertNotIn("//", value or "", (tag, name))
                ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
                self.assertEqual(len(ids), len(set(ids)))

    def test_says_the_same_as_json(self):
        for model in MODELS:
            with self.subTest(model=model):
                report = self.report(model)
                page = Page(self.page(model))
                if not report["tensors"]:
                    self.assertNotIn("roles", page.tables)
                    continue
                for table, column in (("roles", 2), ("types", 2),
                                      ("tensors", 3)):
                    self.assertEqual(sum(page.column(table, column)),
                                     report["weight_bytes"], table)
                by_type = {}
                for uses in report["quantisation"].values():
                    for use in uses:
                        by_type[use["type"]] = (by_type.get(use["type"], 0) +
                                                use["bytes"])
                self.assertEqual({row[0]["text"]: row[2]["bytes"]
                                  for row in page.tables["types"][1:]}, by_type)
                self.check_layers(page, report)
                kv = report["kv_bytes_per_position"]
                for row in page.tables["kv"][1:]:
                    positions = int(row[0]["text"].replace(",", ""))
                    self.assertEqual(row[1]["bytes"], positions * kv["f16"])
                exact = {int(attrs["value"]) for tag, attrs in page.tags
                         if tag == "data"}
                self.assertLessEqual({report["weight_bytes_per_token"],
                                      report["file_bytes"]}, exact)

    def check_layers(self, page, report):
        head, *rows = page.tables["layers"]
        self.assertEqual(len(rows), report["layers"])
        for row, layer in zip(rows, report["layer_bytes"]):
            self.assertEqual(int(row[0]["text"]), layer.pop("layer"))
            self.assertEqual({name["text"]: cell["bytes"]
                              for name, cell in zip(head[1:], row[1:])
                              if cell["bytes"] is not None}, layer)

    def test_is_the_same_every_time(self):
        self.assertEqual(self.page(GOLDEN), self.page(GOLDEN))

    def test_escapes_what_the_file_says(self):
        """Names, metadata, tokens and an architecture made of markup."""
        model = Gguf(GOLDEN)
        at = model.values["general.architecture"]
        model.bytes[at + 8:at + 13] = b"<b>&x"
        tokens = model.values["tokenizer.ggml.tokens"] + 12
        (length,) = struct.unpack_from("<Q", model.bytes, tokens)
        model.bytes[tokens + 8:tokens + 8 + length] = b"<u>xxxxx"[:length]
        # The name last: it may have another length.
        at = model.values["general.name"]
        (length,) = struct.unpack_from("<Q", model.bytes, at)
        evil = EVIL.encode().ljust(length, b" ")
        evil += b" " * ((length - len(evil)) % 32)  # tensors stay aligned
        model.bytes[at:at + 8 + length] = struct.pack("<Q", len(evil)) + evil
        text = self.page(self.write("<i>evil&.gguf", model.bytes))
        page = Page(text)
        self.assertIn("cannot run", text)
        tags = {tag for tag, _ in page.tags}
        self.assertFalse(tags & {"script", "img", "b", "u"})
        self.assertIn("<script>alert(1)</script><img", "".join(page.texts))
        self.assertIn("<i>evil&.gguf", "".join(page.texts))

    def test_never_replaces_the_model(self):
        data = pathlib.Path(GOLDEN).read_bytes()
        path = self.write("m.gguf", data)
        link = self.folder / "link.gguf"
        os.symlink(path, link)
        for output in (path, link):
            self.assert_fails(run("inspect", path, "--html", output),
                              "is one of the files to read")
        self.assertEqual(pathlib.Path(path).read_bytes(), data)

    def test_nothing_is_written_when_the_model_cannot_be_read(self):
        path = self.folder / "page.html"
        self.assert_fails(run("inspect", "no/such.gguf", "--html", path),
                          "no/such.gguf")
        self.assert_fails(run("inspect", GOLDEN, "--html",
                              self.folder / "no/page.html"), "no/page.html")
        self.assertEqual(self.leftovers(), [])

    def test_page_and_json_together(self):
        path = self.folder / "page.html"
        out = self.assert_ok(run("inspect", GOLDEN, "--json", "--html", path))
        self.assertEqual(json.loads(out)["architecture"], "llama")
        self.assertIn("</html>", path.read_text(encoding="utf-8"))

    def test_page_on_standard_output(self):
        out = self.assert_ok(run("inspect", GOLDEN, "--html", "/dev/stdout"))
        self.assertTrue(out.startswith(b"<!DOCTYPE html>"))
        self.assertTrue(out.endswith(b"</html>\n"))

    def test_many_layers_and_experts_stay_small(self):
        """80 layers, 128 experts each, as tensors of their own."""
        infos = [(f"blk.{layer}.ffn_{part}.{expert}.weight", 32)
                 for layer in range(80) for expert in range(128)
                 for part in ("gate", "up", "down")]
        path = self.write("experts.gguf", small_model(infos))
        report = self.report(path)
        self.assertEqual(report["tensors"], 80 * 128 * 3)
        text = self.page(path)
        self.assertLess(len(text), 400_000)
        page = Page(text)
        self.assertEqual(len(page.tables["tensors"]), 1 + 80 * 3)
        self.assertIn("blk.79.ffn_up.*.weight", text)
        self.check_layers(page, {**report, "layers": 80})


def small_model(infos):
    """A file of F32 vectors with an architecture that nobody has."""
    text = lambda value: struct.pack("<Q", len(value)) + value.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, len(infos), 1)
    out += text("general.architecture") + struct.pack("<I", 8) + text("nosuch")
    size = 0
    for name, count in infos:
        out += text(name) + struct.pack("<IQIQ", 1, count, 0, size)
        size += count * 4
    return out + bytes(-len(out) % 32) + bytes(size)


class InspectSparsityTest(CliTest):

    def report(self, name):
        return json.loads(self.assert_ok(run("inspect", DATA / name, "--json")))

    def test_experts(self):
        report = self.report("golden/mixtral-8x2-f16.gguf")
        self.assertEqual((report["experts"], report["experts_used"]), (8, 2))
        self.assertEqual(report["container"], "GGUF")
        self.assertTrue(report["quantisation"]["experts"])
        # A token reads two of eight.
        self.assertLess(report["weight_bytes_per_token"],
                        report["weight_bytes"] / 2)

    def test_predictors_of_powerinfer(self):
        report = self.report("golden-powerinfer/opt-f16.powerinfer.gguf")
        self.assertEqual(report["container"], "PWRI")
        self.assertEqual(len(report["predictors"]["ranks"]), report["layers"])
        self.assertFalse(report["predictors"]["bias"])
        self.assertGreater(report["position_rows"], 0)
        self.assertIsNone(report["score_threshold"])
        report = self.report("golden-powerinfer/llama-thr-f16.powerinfer.gguf")
        self.assertEqual(report["score_threshold"], 0.4)
        self.assertIsNone(report["position_rows"])


class InspectModelFlagTest(CliTest):

    def test_model_by_flag_or_position(self):
        want = self.assert_ok(run("inspect", STORIES))
        for flag in ("-m", "--model"):
            self.assertEqual(self.assert_ok(run("inspect", flag, STORIES)), want)
        self.assert_fails(run("inspect"), "the model is missing", code=2)
        self.assert_fails(run("inspect", STORIES, "-m", STORIES), "MODEL",
                          code=2)
        self.assert_fails(run("inspect", "-m", ""), "empty", code=2)


if __name__ == "__main__":
    main()
