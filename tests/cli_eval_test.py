#!/usr/bin/env python3
"""`thermocline eval mc` and `eval kl`, compared with sums over `eval logits`."""

import csv
import io
import json
import math
import pathlib
import signal
import struct
import unittest

import cli_support
from cli_support import (CliTest, DATA, DEMO, GOLDEN, ROOT, STORIES,
                         WAIT_LIMIT_S, floats, run, start)

Q4_0 = str(DATA / "golden/llama-gqa-Q4_0.gguf")
Q8_0 = str(DATA / "golden/llama-gqa-Q8_0.gguf")
SPARSE = str(DATA / "golden-powerinfer/bamboo-f16.powerinfer.gguf")
TASKS = DATA / "eval"
FIXTURES = ROOT.parent / "shared/fixtures/multiple-choice"
F32_CACHE = ("-ctk", "f32", "-ctv", "f32")
TASK_NAMES = ("query", "context_options", "premise_hypothesis",
              "choice1_choice2", "goal_sol1", "sentence_option1",
              "question_choices")


def log_softmax(row):
    top = max(row)
    log_sum = top + math.log(math.fsum(math.exp(x - top) for x in row))
    return [x - log_sum for x in row]


def prompts(record):
    """Contexts and continuations of a record, as docs/eval.md has them."""
    def pair(context, choice):
        body = context.rstrip()
        return body, (context[len(body):] or " ") + choice.lstrip()

    if "query" in record:
        query = record["query"].rstrip()
        if query.startswith("Question:") and not query.endswith("Answer:"):
            record = {**record, "query": query + "\nAnswer:"}
        return record["gold"], [pair(record["query"], choice)
                                for choice in record["choices"]]
    if "context_options" in record:
        return record["gold"], [pair(context, record["continuation"])
                                for context in record["context_options"]]
    if "hypothesis" in record:
        context = (f"{record['premise']}\nQuestion: {record['hypothesis']} "
                   "True or False?\nAnswer:")
        gold = {"entailment": 0, "not_entailment": 1}.get(record["label"],
                                                          record["label"])
        return gold, [(context, " True"), (context, " False")]
    if "goal" in record:
        context = f"Question: {record['goal']}\nAnswer:"
        return record["label"], [pair(context, record["sol1"]),
                                 pair(context, record["sol2"])]
    if "sentence" in record:
        before, _, behind = record["sentence"].partition("_")
        return "12".index(record["answer"]), [
            pair(before + record[option], behind)
            for option in ("option1", "option2")]
    if "answer" in record:
        letters = "ABCD"[:len(record["choices"])]
        lines = [f"{letter}. {choice}"
                 for letter, choice in zip(letters, record["choices"])]
        context = "\n".join([record["question"].strip(), *lines, "Answer:"])
        gold = record["answer"]
        return letters.index(gold) if isinstance(gold, str) else gold, [
            (context, " " + letter) for letter in letters]
    premise = record["premise"].strip()
    if premise[-1] in ".!?":
        premise = premise[:-1]
    word = {"cause": "because", "effect": "therefore"}[record["question"]]
    return record["label"], [
        (f"{premise} {word}",
         " " + (choice[0].lower() if choice[0].isascii() else choice[0]) +
         choice[1:])
        for choice in (record["choice1"], record["choice2"])]


class EvalTest(CliTest):

    def logits(self, model, ids, mode="auto"):
        """[T][V] of a list of ids."""
        out = self.folder / "logits.f32"
        self.assert_ok(run("eval", "logits", "-m", model, "--ffn", mode,
                           "--tokens", ",".join(map(str, ids)), "-o", out))
        values = floats(out.read_bytes())
        size = len(values) // len(ids)
        return [values[size * t:size * (t + 1)] for t in range(len(ids))]

    known_ids = {}  # contexts come up again with every choice

    def ids(self, model, text):
        key = (model, text)
        if key not in self.known_ids:
            self.known_ids[key] = [int(i) for i in self.assert_ok(
                run("tokenize", "-m", model, stdin=text.encode())).split()]
        return self.known_ids[key]

    def scored(self, *args):
        """(report, items) of one run."""
        out = self.folder / "items.jsonl"
        report = json.loads(self.assert_ok(
            run("eval", "mc", *args, "--format", "json", "-o", out)))
        return report, [json.loads(line)
                        for line in out.read_text().splitlines()]


class MultipleChoiceTest(EvalTest):

    def reference(self, model, context, continuation, mode="auto"):
        """(log-probability, tokens) by the definition."""
        before = self.ids(model, context)
        whole = self.ids(model, context + continuation)
        ids = before + whole[len(before):]
        rows = self.logits(model, ids, mode)
        return (math.fsum(log_softmax(rows[t - 1])[ids[t]]
                          for t in range(len(before), len(ids))),
                len(ids) - len(before))

    def check_file(self, model, path, limit):
        report, items = self.scored("-m", model, "-f", path, "--limit", limit,
                                    *F32_CACHE)
        lines = [line for line in
                 pathlib.Path(path).read_text(encoding="utf-8").split("\n")
                 if line.strip()][:limit]
        self.assertEqual(len(items), len(lines))
        num_right, num_right_norm = 0, 0
        for item, line in zip(items, lines):
            gold, pairs = prompts(json.loads(line))
            scored = item["modes"]["dense"]
            want = [self.reference(model, *pair) for pair in pairs]
            self.assertEqual(item["gold"], gold)
            self.assertEqual(item["tokens"], [n for _, n in want])
            self.assertEqual(item["bytes"],
                             [len(text.lstrip().encode()) for _, text in pairs])
            for got, (log_p, _) in zip(scored["log_probs"], want):
                self.assertAlmostEqual(got, log_p, delta=1e-6 * abs(log_p))
            norm = [s / n for s, n in zip(scored["log_probs"], item["bytes"])]
            for pick, scores in ((scored["pick"], scored["log_probs"]),
                                 (scored["pick_norm"], norm)):
                self.assertEqual(pick, scores.index(max(scores)))
            num_right += scored["pick"] == gold
            num_right_norm += scored["pick_norm"] == gold
        mode = report["modes"][0]
        self.assertEqual(report["items"], len(lines))
        self.assertAlmostEqual(mode["acc"], num_right / len(lines))
        self.assertAlmostEqual(mode["acc_norm"], num_right_norm / len(lines))
        share = mode["acc"]
        self.assertAlmostEqual(
            mode["acc_error"], math.sqrt(share * (1 - share) / len(lines)))
        self.assertLessEqual(mode["acc_low"], share)
        self.assertGreaterEqual(mode["acc_high"], share)

    def test_every_schema_by_the_definition(self):
        for name in TASK_NAMES:
            with self.subTest(task=name):
                self.check_file(STORIES, TASKS / f"{name}.jsonl", 100)

    def test_byte_level_vocabulary(self):
        self.check_file(DEMO, TASKS / "context_options.jsonl", 2)

    def test_real_files(self):
        if not FIXTURES.exists():
            self.skipTest(f"needs {FIXTURES}")
        for path, guess in (("arc_easy", 0.25), ("openbook_qa", 0.25),
                            ("winograd_wsc", 0.5), ("RTE_dev32", 0.5),
                            ("RTE_train32", 0.5), ("COPA_dev32", 0.5),
                            ("COPA_train32", 0.5)):
            with self.subTest(task=path):
                file = FIXTURES / f"{path}.jsonl"
                self.check_file(STORIES, file, 2)
                limit = 4
                report, items = self.scored("-m", DEMO, "-f", file, "--limit",
                                            limit, "-c", 512)
                self.assertEqual(len(items), limit)
                self.assertAlmostEqual(report["guess"], guess)

    def test_examples_in_front(self):
        path = TASKS / "choice1_choice2.jsonl"
        records = [json.loads(line)
                   for line in path.read_text(encoding="utf-8").splitlines()]
        examples = ""
        for record in records[:2]:
            gold, pairs = prompts(record)
            examples += "".join(pairs[gold]) + "\n\n"
        report, items = self.scored(
            "-m", STORIES, "-f", path, "--limit", 1, "--shots-file", path,
            "--shots", 2, *F32_CACHE)
        self.assertEqual(report["examples"], 2)
        for got, (context, text) in zip(
                items[0]["modes"]["dense"]["log_probs"],
                prompts(records[0])[1]):
            want, _ = self.reference(STORIES, examples + context, text)
            self.assertAlmostEqual(got, want, delta=1e-6 * abs(want))

    def test_modes_side_by_side(self):
        path = TASKS / "query.jsonl"
        args = ("-m", SPARSE, "-f", path, *F32_CACHE)
        report, items = self.scored(*args, "--modes", "dense,fast")
        self.assertEqual([mode["mode"] for mode in report["modes"]],
                         ["dense", "fast"])
        changed, lost, gained = 0, 0, 0
        for item, line in zip(items, path.read_text(
                encoding="utf-8").splitlines()):
            gold, pairs = prompts(json.loads(line))
            for mode, scored in item["modes"].items():
                want, _ = self.reference(SPARSE, *pairs[-1], mode)
                self.assertAlmostEqual(scored["log_probs"][-1], want,
                                       delta=1e-6 * abs(want))
            before, after = (item["modes"][mode]["pick"]
                             for mode in ("dense", "fast"))
            changed += before != after
            lost += before == gold != after
            gained += before != gold == after
        self.assertNotEqual(items[0]["modes"]["dense"]["log_probs"],
                            items[0]["modes"]["fast"]["log_probs"])
        self.assertIsNone(report["modes"][0]["change"])
        change = report["modes"][1]["change"]
        self.assertEqual((change["changed"], change["lost"], change["gained"]),
                         (changed, lost, gained))
        self.assertAlmostEqual(
            change["difference"],
            report["modes"][1]["acc"] - report["modes"][0]["acc"])
        # The first mode that --ffn auto finds is the file's own.
        report, alone = self.scored(*args)
        self.assertEqual(report["modes"][0]["mode"], "fast")
        self.assertEqual([item["modes"]["fast"] for item in alone],
                         [item["modes"]["fast"] for item in items])
        self.assert_fails(run("eval", "mc", "-m", STORIES, "-f", path,
                              "--modes", "dense,fast"), "--ffn dense")

    def test_same_bytes_for_every_thread_count_and_batch(self):
        limit = 100

        def items(*more):
            out = self.folder / "items.jsonl"
            text = self.assert_ok(run("eval", "mc", "-m", DEMO, "-f",
                                      TASKS / "query.jsonl", "--limit", limit,
                                      "-o", out, *more))
            return text, out.read_bytes()
        want = items("-t", 1)
        self.assertEqual(items("-t", 2), want)
        self.assertEqual(items("-t", 3, "-b", 3), want)

    def test_ctrl_c(self):
        record = json.dumps({"query": "a b c " * 300,
                             "choices": ["d " * 100, "e"], "gold": 0})
        path = self.write("task.jsonl", (record + "\n").encode() * 1000)
        process = start("eval", "mc", "-m", STORIES, "-f", path, "--isa",
                        "scalar", "-t", 1, "-o", self.folder / "items.jsonl")
        self.assertIn(b"dense", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=WAIT_LIMIT_S)
        self.assertEqual((process.returncode, out), (130, b""), error)
        self.assertEqual(self.leftovers("task.jsonl"), [])

    def test_table_csv_and_standard_input(self):
        text = (TASKS / "query.jsonl").read_bytes().replace(b"\n", b"\r\n\n")
        result = run("eval", "mc", "-m", STORIES, "-f", "-", stdin=text)
        self.assertIn("| dense    | acc        | ".encode(),
                      self.assert_ok(result))
        rows = list(csv.DictReader(io.StringIO(self.assert_ok(
            run("eval", "mc", "-m", STORIES, "-f", "-", "--format", "csv",
                stdin=b"\xef\xbb\xbf" + text)).decode())))
        self.assertEqual(len(rows), 1)
        self.assertEqual((rows[0]["mode"], rows[0]["items"], rows[0]["file"]),
                         ("dense", "6", "standard input"))
        self.assertAlmostEqual(float(rows[0]["guess"]),
                               (0.25 * 3 + 1 / 3 * 2 + 1 / 2) / 6, places=6)

    def test_an_error_in_standard_input_says_so(self):
        self.assert_fails(
            run("eval", "mc", "-m", STORIES, "-f", "-", stdin=b"{}\n"),
            "standard input: line 1")

    def test_bad_tasks_leave_nothing_behind(self):
        good = b'{"query": "a", "choices": ["b", "c"], "gold": 0}\n'
        for data, *parts in (
                (b"", "no records"),
                (b"[\n", "line 1: not valid JSON", "one record per line"),
                (b'{"goal": 1, "sol1": 2}\n', "line 1", '"goal", "sol1"',
                 "query/choices/gold", "premise/hypothesis/label"),
                (b'{"goal": "a", "sol1": "b", "sol2": "c"}\n', "line 1",
                 '"label" is missing', "second file"),
                (b'{"sentence": "a", "option1": "b", "option2": "c", '
                 b'"answer": "1"}\n', "line 1", '"sentence" has no gap'),
                (b'{"question": "a", "choices": ["b", "c"], "answer": "E"}\n',
                 "line 1", '"answer" is "E"'),
                (good + b"\n" + good.replace(b"0", b"2"), "line 3",
                 '"gold" is 2'),
                (good + good.replace(b'"b", "c"', b""), "line 2",
                 '"choices" has 0 entries'),
                (good + b'{"query": "\xff"}', "line 2", "not valid JSON"),
                (good + b"[" * 100000, "line 2", "deep"),
                (good[:-20], "line 1", "not valid JSON")):
            path = self.write("task.jsonl", data)
            self.assert_fails(
                run("eval", "mc", "-m", STORIES, "-f", path, "-o",
                    self.folder / "items.jsonl"), path, *parts)
        self.assertEqual(self.leftovers("task.jsonl"), [])
        self.assert_fails(run("eval", "mc", "-m", STORIES, "-f", "no/such"),
                          "no/such")

    def test_items_longer_than_the_context(self):
        path = self.write("task.jsonl", json.dumps(
            {"query": "a b c " * 400, "choices": ["d", "e"],
             "gold": 0}).encode())
        result = run("eval", "mc", "-m", GOLDEN, "-f", path)
        self.assert_fails(result, "line 1: needs", "512: use -c ")
        need = result.stderr.decode().split("use -c ")[1].split()[0]
        self.assert_fails(run("eval", "mc", "-m", GOLDEN, "-f", path, "-c",
                              int(need) - 1), "the context has")
        self.assert_ok(run("eval", "mc", "-m", GOLDEN, "-f", path, "-c", need))


class DivergenceTest(EvalTest):

    def measure(self, *args, chunk=32):
        return json.loads(self.assert_ok(
            run("eval", "kl", *args, "-f", self.text, "-c", chunk, "--json")))

    def setUp(self):
        super().setUp()
        self.data = (DATA / "demo/valid.txt").read_bytes()[:500]
        self.text = self.write("text.txt", self.data)

    def test_against_the_logits(self):
        got = self.measure("-m", Q4_0, "--base", GOLDEN, *F32_CACHE)
        ids = self.ids(GOLDEN, self.data.decode())
        kls, nlls, base_nlls, delta_p, same = [], [], [], [], 0
        for begin in range(0, len(ids) - 31, 32):
            chunk = [1] + ids[begin + 1:begin + 32]
            rows = self.logits(Q4_0, chunk)
            base_rows = self.logits(GOLDEN, chunk)
            for t in range(16, 31):
                q, p = log_softmax(rows[t]), log_softmax(base_rows[t])
                kls.append(math.fsum(math.exp(a) * (a - b)
                                     for a, b in zip(p, q)))
                token = chunk[t + 1]
                nlls.append(-q[token])
                base_nlls.append(-p[token])
                delta_p.append(math.exp(q[token]) - math.exp(p[token]))
                same += q.index(max(q)) == p.index(max(p))
        count = len(kls)
        self.assertGreater(count, 30)
        self.assertEqual(got["predictions"], count)
        self.assertAlmostEqual(got["kl"], sum(kls) / count, places=9)
        self.assertAlmostEqual(got["kl_max"], max(kls), places=9)
        kls.sort()
        for name, share in (("kl_median", 0.5), ("kl_p90", 0.9),
                            ("kl_p99", 0.99)):
            place = share * (count - 1)
            low = int(place)
            want = (kls[low] + (place - low) *
                    (kls[min(low + 1, count - 1)] - kls[low]))
            self.assertAlmostEqual(got[name], want, places=9)
        self.assertAlmostEqual(got["perplexity"],
                               math.exp(sum(nlls) / count), places=5)
        self.assertAlmostEqual(got["base_perplexity"],
                               math.exp(sum(base_nlls) / count), places=5)
        self.assertAlmostEqual(
            got["ratio"], math.exp((sum(nlls) - sum(base_nlls)) / count),
            places=8)
        self.assertAlmostEqual(got["delta_p"], sum(delta_p) / count, places=9)
        self.assertEqual(got["same_top_count"], same)
        ppl = json.loads(self.assert_ok(
            run("eval", "ppl", "-m", Q4_0, "-f", self.text, "-c", 32, "--json",
                *F32_CACHE)))
        self.assertEqual(got["perplexity"], ppl["perplexity"])
        self.assertEqual(got["perplexity_error"], ppl["error"])

    def test_modes_of_one_model(self):
        got = self.measure("-m", SPARSE, "--ffn", "fast", "--base-mode",
                           "dense", *F32_CACHE)
        ids = self.ids(SPARSE, self.data.decode())
        kls = []
        for begin in range(0, len(ids) - 31, 32):
            chunk = [1] + ids[begin + 1:begin + 32]
            rows = self.logits(SPARSE, chunk, "fast")
            base_rows = self.logits(SPARSE, chunk, "dense")
            kls += [math.fsum(math.exp(a) * (a - b) for a, b in
                              zip(log_softmax(p), log_softmax(q)))
                    for p, q in zip(base_rows[16:31], rows[16:31])]
        self.assertGreater(got["kl"], 0.01)
        self.assertAlmostEqual(got["kl"], sum(kls) / len(kls), places=9)

    def test_zero_from_itself(self):
        for args in (("-m", GOLDEN, "--base", GOLDEN),
                     ("-m", DEMO, "--base-mode", "dense")):
            got = self.measure(*args)
            for name in ("kl", "kl_error", "kl_max", "delta_p", "log_ratio",
                         "delta_p_rms"):
                self.assertEqual(got[name], 0.0, name)
            self.assertEqual(got["ratio"], 1.0)
            self.assertEqual(got["same_top"], 1.0)

    def test_fewer_bits_are_farther(self):
        far = self.measure("-m", Q4_0, "--base", GOLDEN)
        near = self.measure("-m", Q8_0, "--base", GOLDEN)
        self.assertGreater(far["kl"], near["kl"])
        self.assertGreater(near["kl"], 0.0)

    def test_same_output_for_every_thread_count(self):
        want = self.measure("-m", Q4_0, "--base", GOLDEN, "-t", 1)
        self.assertEqual(self.measure("-m", Q4_0, "--base", GOLDEN, "-t", 3,
                                      "-b", 5), want)

    def test_vocabularies_that_differ(self):
        self.assert_fails(run("eval", "kl", "-m", GOLDEN, "--base", STORIES,
                              "-f", self.text), GOLDEN, STORIES, "320 and 512")
        other = pathlib.Path(GOLDEN).read_bytes()
        self.assertEqual(other.count(b"</s>"), 1)
        path = self.write("other.gguf", other.replace(b"</s>", b"<xy>"))
        self.assert_fails(run("eval", "kl", "-m", GOLDEN, "--base", path, "-f",
                              self.text), path, "different vocabularies",
                          "token 2 is")

    def test_texts_that_are_cut_differently(self):
        other = cli_support.Gguf(STORIES)
        at = other.values["tokenizer.ggml.scores"] + 12  # behind type, count
        count, = struct.unpack_from("<Q", other.bytes, at - 8)
        scores = struct.unpack_from(f"<{count}f", other.bytes, at)
        struct.pack_into(f"<{count}f", other.bytes, at, *scores[::-1])
        path = self.write("other.gguf", bytes(other.bytes))
        self.assert_fails(run("eval", "kl", "-m", STORIES, "--base", path, "-f",
                              self.text, "-c", 32), STORIES, path,
                          "different tokens, from token ")

    def test_wrong_usage(self):
        model = ("-m", GOLDEN, "-f", self.text)
        for args, part in (
                (model, "--base, --base-mode or both"),
                (model + ("--base-mode", "quick"), "'quick' is not one of"),
                (model + ("--base", GOLDEN, "-c", 3), "chunks of 3 are too"),
                (("-m", GOLDEN, "--base", GOLDEN), "--file is required")):
            self.assert_fails(run("eval", "kl", *args), part, "--help')",
                              code=2)


if __name__ == "__main__":
    cli_support.main()
