#!/usr/bin/env python3
"""`thermocline run` as a chat: at a pseudo-terminal, and through pipes."""

import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import termios

import cli_support
from cli_support import (CliTest, Gguf, PROGRAM, STORIES, WAIT_LIMIT_S, run,
                         start, wait_for_handler)

PROMPT = b"\x1b[?2004h> "  # bracketed paste on, then the prompt
SHORT = ("--chat-template", "vicuna", "--temp", 0, "-n", 8, "-t", 1)
ENDLESS = ("--chat-template", "vicuna", "-c", 65536, "--ignore-eos", "-t", 1)


class Terminal:
    """The program at a terminal of its own, as its session's leader."""

    def __init__(self, *args, prompt=PROMPT, cwd=None, **env):
        args = [PROGRAM, "run", *map(str, args)]
        env = {**os.environ, "TERM": "xterm", "LC_ALL": "C", **env}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if cwd is not None:
                os.chdir(cwd)
            os.execve(PROGRAM, args, env)
        self.prompt = prompt
        self.seen = b""

    def read_more(self):
        if not select.select([self.fd], [], [], WAIT_LIMIT_S)[0]:
            raise TimeoutError(self.seen)
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program has ended
            data = b""
        self.seen += data
        return data

    def read_until(self, text):
        """What comes up to `text`, and `text`."""
        while text not in self.seen:
            if not self.read_more():
                raise EOFError(self.seen)
        end = self.seen.index(text) + len(text)
        shown, self.seen = self.seen[:end], self.seen[end:]
        return shown

    def type(self, keys):
        """Types at the next prompt; returns what came before it."""
        shown = self.read_until(self.prompt)
        os.write(self.fd, keys)
        return shown

    def end(self):
        """The exit code, negative for a signal, and what was shown last."""
        while self.read_more():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status), self.seen


class TerminalTest(CliTest):

    def save(self, terminal, name="chat.json"):
        """The conversation, by /save; the chat ends."""
        path = self.folder / name
        terminal.type(f"/save {path}\r".encode())
        terminal.type(b"\x04")
        self.assertEqual(terminal.end()[0], 0)
        return json.loads(path.read_text(encoding="utf-8"))

    def said(self, terminal):
        return [m["content"] for m in self.save(terminal) if m["role"] == "user"]

    def test_chats_without_being_told_to(self):
        terminal = Terminal("-m", STORIES, *SHORT)
        shown = terminal.type(b"Hello\r")
        self.assertIn(b"context 2048", shown)
        self.assertIn(b"chat in the format vicuna; /help", shown)
        shown = terminal.type(b"\x04")
        self.assertRegex(shown, rb"\r\n.*\w.*\r\n.*\[prompt \d+ tokens")
        code, shown = terminal.end()
        self.assertEqual(code, 0, shown)

    def test_needs_a_template(self):
        terminal = Terminal("-m", STORIES)
        code, shown = terminal.end()
        self.assertEqual(code, 1)
        self.assertIn(b"has no chat template", shown)
        self.assertIn(b"alpaca", shown)

    def test_editing_history_and_several_lines(self):
        terminal = Terminal("-m", STORIES, *SHORT)
        terminal.type("hlo\x1b[D\x1b[Del\x05 w\u00e9\r".encode())
        terminal.type(b"\x1b[A!\r")  # up
        terminal.type(b"one\\\r")
        terminal.read_until(b". ")
        os.write(terminal.fd, b"two\r")
        terminal.type(b'"""\r')
        terminal.read_until(b". ")
        os.write(terminal.fd, b"/exit\r")
        terminal.read_until(b". ")
        os.write(terminal.fd, b'there"""\r')
        terminal.type(b"\x1b[200~a\rb\x1b[201~c\r")
        self.assertEqual(self.said(terminal),
                         ["hello w\u00e9", "hello w\u00e9!", "one\ntwo",
                          "/exit\nthere", "a\nbc"])

    def test_ctrl_c_stops_the_answer_and_keeps_it(self):
        terminal = Terminal("-m", STORIES, *ENDLESS)
        terminal.type(b"Once\r")
        terminal.read_until(b"\x1b[?2004l")
        self.assertTrue(terminal.read_more())
        os.write(terminal.fd, b"\x03")
        self.assertIn(b"interrupted", terminal.type(b"/clear now\r"))
        messages = self.save(terminal)
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"])
        self.assertGreater(len(messages[1]["content"]), 0)

    def test_ctrl_c_at_the_prompt(self):
        terminal = Terminal("-m", STORIES, *SHORT)
        for keys in (b"not this", b"nor this"):
            terminal.type(keys)
            terminal.read_until(keys[-1:])
            os.write(terminal.fd, b"\x03")
        shown = terminal.type(b"\x03")
        self.assertNotIn(b"Ctrl-C again", shown)
        self.assertIn(b"Ctrl-C again or Ctrl-D", terminal.type(b"but this\r"))
        self.assertEqual(self.said(terminal), ["but this"])
        terminal = Terminal("-m", STORIES, *SHORT)
        terminal.type(b"one\\\r")
        terminal.read_until(b". ")
        os.write(terminal.fd, b"\x03")
        terminal.type(b"\x03")
        terminal.type(b"\x03")
        self.assertEqual(terminal.end()[0], 0)

    def test_ctrl_d_inside_a_message_gives_it_up_and_ends(self):
        for first in (b"one\\\r", b'"""one\r'):
            terminal = Terminal("-m", STORIES, *SHORT)
            terminal.type(first)
            terminal.read_until(b". ")
            os.write(terminal.fd, b"\x04")
            code, shown = terminal.end()
            self.assertEqual(code, 0)
            self.assertNotIn(b"[prompt", shown)

    def test_other_signals_end_it_and_restore_the_terminal(self):
        for sent, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            terminal = Terminal("-m", STORIES, *SHORT)
            before = termios.tcgetattr(terminal.fd)
            terminal.read_until(PROMPT)
            self.assertNotEqual(termios.tcgetattr(terminal.fd), before)
            os.kill(terminal.pid, sent)
            terminal.read_until(b"\x1b[?2004l")
            after = termios.tcgetattr(terminal.fd)
            self.assertEqual(terminal.end()[0], code)
            self.assertEqual(after[3], before[3])  # echo, whole lines
        terminal = Terminal("-m", STORIES, *ENDLESS)
        terminal.type(b"Once\r")
        terminal.read_until(b"\x1b[?2004l")
        self.assertTrue(terminal.read_more())
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.end()[0], 143)

    def test_goes_on_at_its_prompt_after_a_stop(self):
        """As Ctrl-Z and fg do in a shell, which takes the terminal meanwhile."""
        terminal = Terminal("-m", STORIES, *SHORT)
        before = termios.tcgetattr(terminal.fd)
        terminal.type(b"Hel")
        terminal.read_until(b"Hel")
        editing = termios.tcgetattr(terminal.fd)
        os.kill(terminal.pid, signal.SIGSTOP)
        os.waitpid(terminal.pid, os.WUNTRACED)
        termios.tcsetattr(terminal.fd, termios.TCSANOW, before)
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.read_until(PROMPT)
        terminal.read_until(b"Hel")
        self.assertEqual(termios.tcgetattr(terminal.fd), editing)
        os.write(terminal.fd, b"lo\r")
        self.assertEqual(self.said(terminal), ["Hello"])

    def test_commands(self):
        terminal = Terminal("-m", STORIES, *SHORT)
        terminal.type(b"/regen\r")
        self.assertIn(b"no answer yet", terminal.type(b"/fly\r"))
        self.assertIn(b'"/fly" is no command', terminal.type(b"/help\r"))
        self.assertIn(b"/save FILE", terminal.type(b"Hello\r"))
        terminal.type(b"/regen\r")
        self.assertIn(b"[prompt 1 token, ", terminal.type(b"/clear\r"))
        self.assertIn(b"forgotten",
                      terminal.type(f"/save {STORIES}\r".encode()))
        size = os.path.getsize(STORIES)
        self.assertIn(b"not saved", terminal.type(b"/quit\r"))
        self.assertEqual(terminal.end()[0], 0)
        self.assertEqual(os.path.getsize(STORIES), size)

    def test_a_full_context(self):
        terminal = Terminal("-m", STORIES, "--chat-template", "vicuna", "-c",
                            48, "--ignore-eos", "-t", 1)
        terminal.type(b"Once\r")
        shown = terminal.type(b"One day\r")
        self.assertIn(b"the context is full, 48 of 48 positions", shown)
        self.assertIn(b"but 48 of 48 are used: /clear starts over",
                      terminal.type(b"/clear\r"))
        terminal.type(b"Once\r")
        self.assertIn(b"48 of 48 positions", terminal.type(b"\x04"))
        self.assertEqual(terminal.end()[0], 0)

    def test_a_prompt_is_the_first_message(self):
        terminal = Terminal("-m", STORIES, *SHORT, "-cnv", "-p", "One\\nday",
                            "-sys", "Be kind")
        self.assertIn(b"[prompt ", terminal.type(b"Hello\r"))
        self.assertEqual([m["content"] for m in self.save(terminal)][:2],
                         ["Be kind", "One\nday"])

    def test_what_the_model_writes_never_steers_the_terminal(self):
        model = Gguf(STORIES)
        at = model.values["tokenizer.ggml.tokens"]
        _, count = struct.unpack_from("<IQ", model.bytes, at)
        at += 12
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", model.bytes, at)
            if model.bytes[at + 8:at + 8 + length] == b"e":
                model.bytes[at + 8] = 0x1b
            at += 8 + length
        path = self.write("escapes.gguf", model.bytes)
        args = ("-m", path, "--chat-template", "vicuna", "--temp", 0, "-n", 60,
                "-t", 1)
        piped = self.assert_ok(run("run", *args, "-cnv", stdin=b"Once\n"))
        self.assertIn(b"\x1b", piped)  # bytes are bytes
        terminal = Terminal(*args, NO_COLOR="1")
        terminal.type(b"Once\r")
        terminal.read_until(b"\x1b[?2004l")
        shown = terminal.read_until(b"[prompt")
        self.assertNotIn(b"\x1b", shown)
        self.assertEqual(shown.replace(b"\r\n", b"\n").split(b"[")[0],
                         piped.replace(b"\x1b", b" "))
        terminal.type(b"\x04")
        terminal.end()
        args = ("-m", path, "--temp", 0, "-n", 60, "-t", 1, "-p", "Once")
        self.assertIn(b"\x1b", self.assert_ok(run("run", *args)))
        terminal = Terminal(*args, TERM="dumb")  # no colour, no progress
        code, shown = terminal.end()
        self.assertEqual(code, 0, shown)
        self.assertNotIn(b"\x1b", shown)

    def test_a_terminal_that_cannot_edit(self):
        terminal = Terminal("-m", STORIES, *SHORT, prompt=b"> ", TERM="dumb")
        terminal.type(b"Hello\n")
        shown = terminal.type(b"\x03")
        self.assertNotIn(b"\x1b", shown)
        terminal.read_until(b"Ctrl-C again")
        terminal.type(b"/exit\n")
        self.assertEqual(terminal.end()[0], 0)

    def test_nothing_is_written_without_being_asked(self):
        home, here = self.folder / "home", self.folder / "here"
        home.mkdir()
        here.mkdir()
        terminal = Terminal("-m", STORIES, *SHORT, cwd=here, HOME=str(home),
                            XDG_STATE_HOME=str(home),
                            XDG_CONFIG_HOME=str(home))
        terminal.type(b"Hello\r")
        terminal.type(b"\x04")
        self.assertEqual(terminal.end()[0], 0)
        self.assertEqual(os.listdir(home) + os.listdir(here), [])


THINKING = b"""{% for m in messages %}[{{ m.role }}]{{ m.content }}
{% endfor %}[assistant]{% if think %}<think>
{% endif %}{# </think> #}"""


class TemplateTest(CliTest):
    """Templates of the user's, run."""

    def setUp(self):
        super().setUp()
        self.template = self.write("think.jinja", THINKING)
        self.short = ("--chat-template-file", self.template, "--temp", 0, "-n",
                      8, "-t", 1)

    def test_thoughts_are_apart_from_answers(self):
        def chat(*more):
            result = run("run", "-m", STORIES, "-cnv", *self.short, *more,
                         stdin=b"Once\n")
            return self.assert_ok(result), result.stderr
        answer, _ = chat()
        self.assertRegex(answer, rb"\w.*\n\Z")
        nothing, told = chat("--chat-template-kwargs", '{"think": true}')
        self.assertEqual(nothing, b"")
        self.assertRegex(told, rb"think.jinja\n(?s:.*)\w(?s:.*)\n\[prompt")
        terminal = Terminal("-m", STORIES, *self.short,
                            "--chat-template-kwargs", '{"think": true}')
        terminal.type(b"Once\r")
        shown = terminal.type(b"/save " + os.fsencode(self.folder / "c.json") +
                              b"\r")
        self.assertIn(b"\x1b[2m", shown.split(b"[prompt")[0])
        terminal.type(b"\x04")
        self.assertEqual(terminal.end()[0], 0)
        saved = json.loads((self.folder / "c.json").read_text("utf-8"))
        self.assertEqual(saved[1]["content"], "")
        self.assertNotEqual(saved[1]["reasoning_content"], "")

    def test_a_template_that_does_not_do(self):
        for source, part in ((b"{% if %}", "cannot be run"),
                             (b"{{ raise_exception('no') }}",
                              "refuses a message: no"),
                             (b"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
                              "refuses a message")):
            path = self.write("bad.jinja", source)
            self.assert_fails(run("run", "-m", STORIES, "-cnv",
                                  "--chat-template-file", path, stdin=b"Hi\n"),
                              "bad.jinja", part)

    def test_rendering(self):
        messages = self.write("m.json", b'[{"role":"user","content":"<s>"}]')
        out = self.assert_ok(run("template", "--chat-template-file",
                                 self.template, "--messages", messages))
        self.assertEqual(out, b"[user]<s>\n[assistant]")
        ids = self.assert_ok(run("template", "-m", STORIES, "--tokens",
                                 "--chat-template-file", self.template,
                                 "--messages", "-",
                                 stdin=pathlib.Path(messages).read_bytes()))
        self.assertEqual(ids.split().count(b"1"), 1)  # BOS, and no forged one
        self.assert_fails(run("template", "-m", STORIES, "--messages", "-",
                              stdin=b"[]"), "has no chat template")


class PipeTest(CliTest):

    def chat(self, text, *more, **kwargs):
        return run("run", "-m", STORIES, "-cnv", *SHORT, *more,
                   stdin=text.encode(), **kwargs)

    def test_answers_alone_go_to_stdout(self):
        result = self.chat("Hello\n\nOne\\\nday\n")
        out = self.assert_ok(result)
        self.assertEqual(out.count(b"\n"), 2)
        self.assertNotIn(b">", out)
        self.assertNotIn(b"\x1b", out + result.stderr)
        self.assertIn(b"of 2048 positions", result.stderr)
        self.assertEqual(self.chat("Hello\n\nOne\\\nday").stdout, out)

    def test_each_turn_computes_new_tokens_only(self):
        def prompts(text):
            return [int(line.split()[1])
                    for line in self.chat(text).stderr.splitlines()
                    if line.startswith(b"[prompt")]
        once = prompts("Hello\n")
        twice = prompts("Hello\nHello\nHello\n")
        self.assertEqual(twice[0], once[0])
        # Without BOS, with the end of the answer and what was cut off it.
        self.assertLess(twice[2], once[0] + 3)
        self.assertEqual(twice[1], twice[2])

    def test_regen_draws_otherwise_and_the_same_every_time(self):
        def text(lines):
            return self.assert_ok(self.chat(lines, "--temp", 1.5, "-s", 3,
                                            "-n", 20))
        first, both = text("Hello\n"), text("Hello\n/regen\n")
        self.assertTrue(both.startswith(first), both)
        self.assertNotIn(both[len(first):], (first, b""))
        self.assertEqual(text("Hello\n/regen\n"), both)

    def test_a_message_that_does_not_fit(self):
        result = self.chat("Hello\n" + "word " * 300 + "\nHello\n", "-c", 200)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.count(b"\n"), 1)
        self.assertRegex(result.stderr, rb"error: the message takes \d+ "
                         rb"positions.* but the context has 200: use a larger "
                         rb"one \(-c\)\n\Z")
        path = self.write("long.txt", b"word " * 300)
        self.assert_fails(self.chat("Hello\n", "-c", 200, "-sysf", path),
                          "the system prompt takes")

    def test_a_save_that_fails(self):
        path = self.folder / "absent" / "chat.json"
        result = self.chat(f"Hello\n/save {path}\nHello\n")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.count(b"\n"), 1)
        self.assertEqual(result.stderr.count(b"error: "), 1)
        self.assertIn(b"absent", result.stderr)

    def test_a_command_that_there_is_not(self):
        for line in ("/fly", "/clear all"):
            result = self.chat(f"Hello\n{line}\nHello\n")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stdout.count(b"\n"), 1)
            self.assertIn(f'error: "{line.split()[0]}" '.encode(),
                          result.stderr)

    def test_no_template(self):
        """Whether or not there is a prompt already."""
        for args in ((), ("-p", "Hello")):
            self.assert_fails(run("run", "-m", STORIES, "-cnv", *args),
                              "give one by -p, without -cnv",
                              "--chat-template")

    def test_a_save_spares_what_was_read(self):
        first = self.write("first.txt", b"Hello")
        system = self.write("system.txt", b"Be brief.")
        for path in (first, system):
            result = self.chat(f"/save {path}\n", "-f", first, "-sysf", system)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(b"is one of the files to read", result.stderr)
        self.assertEqual(pathlib.Path(first).read_bytes(), b"Hello")
        self.assertEqual(pathlib.Path(system).read_bytes(), b"Be brief.")
        typed = pathlib.Path(self.folder / "typed.txt")
        typed.write_text(f"Hello\n/save {typed}\n", encoding="utf-8")
        with open(typed, "rb") as file:
            process = start("run", "-m", STORIES, "-cnv", *SHORT, stdin=file)
            _, error = process.communicate(timeout=WAIT_LIMIT_S)
        self.assertEqual(process.returncode, 1, error)
        self.assertIn(b"is one of the files to read", error)
        self.assertTrue(typed.read_bytes().startswith(b"Hello\n/save "))

    def test_cr_lf_ends_a_line(self):
        self.assertEqual(
            self.assert_ok(self.chat("Hello\r\nOne\\\r\nday\r\n")),
            self.assert_ok(self.chat("Hello\nOne\\\nday\n")))

    def test_system_prompt_from_a_file(self):
        path = self.write("system.txt", b"The dog ran.\n")
        self.assertEqual(self.chat("Hello\n", "-sysf", path).stdout,
                         self.chat("Hello\n", "-sys", "The dog ran.").stdout)
        self.assertNotEqual(self.chat("Hello\n", "-sysf", path).stdout,
                            self.chat("Hello\n").stdout)
        self.assert_fails(self.chat("", "-sysf", self.folder / "absent"),
                          "absent")

    def test_wrong_usage(self):
        typed = "standard input is where the chat is typed"
        for more, part in ((("-f", "-"), typed), (("-sysf", "-"), typed),
                           (("--tools", "a"), "take none"),
                           (("-sys", "a", "-sysf", "b"), "-sysf, not both"),
                           (("--chat-template", "none"), "'none' is not one")):
            self.assert_fails(self.chat("", *more), part, "--help')", code=2)
        for args, part in ((("-p", "a", "-sys", "b"), "belong to a chat"),
                           (("-p", "a", "--chat-template", "gemma"),
                            "belong to a chat"), ((), "no prompt")):
            self.assert_fails(run("run", "-m", STORIES, *args), part,
                              "--help')", code=2)

    def test_signals(self):
        for sent, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for message in (b"", b"Once\n"):
                process = start("run", "-m", STORIES, "-cnv", *ENDLESS,
                                stdin=subprocess.PIPE)
                process.stdin.write(message)
                process.stdin.flush()
                if message:
                    self.assertTrue(process.stdout.read(1))
                else:
                    wait_for_handler(process)
                process.send_signal(sent)
                _, error = process.communicate(timeout=WAIT_LIMIT_S)
                self.assertEqual(process.returncode, code, error)
                self.assertNotIn(b"error", error)

    def test_closed_stdout_is_silent(self):
        process = start("run", "-m", STORIES, "-cnv", *ENDLESS,
                        stdin=subprocess.PIPE)
        process.stdin.write(b"Once\n")
        process.stdin.flush()
        self.assertTrue(process.stdout.read(1))
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        process.stdin.close()
        self.assertEqual(process.wait(WAIT_LIMIT_S), 0, error)
        self.assertNotIn(b"error", error)


if __name__ == "__main__":
    cli_support.main()
