"""Tests of the installed package, and through it of libquern by ctypes."""

import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import quern

STORY = dict(prompt="Once upon a time", max_tokens=40, seed=7)


class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.events = []
        cls.model = quern.Model("demo", progress=cls.events.append, context_length=512)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_open(self):
        self.assertTrue(quern.__version__)
        self.assertEqual(self.model.info["context_length"], 512)
        self.assertEqual({e["phase"] for e in self.events}, {"load"})

    def test_events(self):
        call = self.model.chat([{"role": "user", "content": "Tell me a story."}], max_tokens=40, seed=7, logprobs=True)
        events = list(call)
        text = "".join(e["text"] for e in events if e["type"] == "text")
        self.assertEqual(events[-1], call.result)
        self.assertEqual(call.result["message"], {"role": "assistant", "content": text})
        self.assertEqual(call.result["usage"]["completion_tokens"], 40)
        self.assertEqual(len(call.result["logprobs"]), 40)
        self.assertEqual(b"".join(bytes(t["bytes"]) for t in call.result["logprobs"]).decode(), text)
        self.assertTrue(all(t["logprob"] <= 0 for t in call.result["logprobs"]))
        self.assertEqual(list(call), [])

    def test_again(self):
        one, two = self.model.complete(**STORY), self.model.complete("Once upon a time", max_tokens=40, seed=7)
        self.assertEqual(one["message"], two["message"])
        self.assertEqual(one["finish_reason"], "length")
        more = self.model.complete([{"role": "user", "content": "Go on: é"}, one["message"]], max_tokens=5)
        self.assertEqual(more["message"]["role"], "assistant")

    def test_format(self):
        schema = {"type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"]}
        schema["additionalProperties"] = False
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        r = self.model.complete([{"role": "user", "content": "x"}], response_format=form, max_tokens=60)
        self.assertIn(r["message"]["content"].replace(" ", "").replace("\n", ""), ['{"n":1}', '{"n":22}'])
        r = self.model.complete("x", structured_outputs={"choice": ["red", "green"]})
        self.assertIn(r["message"]["content"], ["red", "green"])
        r = self.model.complete("Once", stop="a", max_tokens=99, seed=1)
        self.assertEqual(r["stop"], "a")

    def test_embed(self):
        import numpy

        v = self.model.embed(["The cat sleeps.", "A cat is asleep.", "The cat sleeps."])
        self.assertEqual((v.dtype, v.shape), (numpy.float32, (3, self.model.info["vector_size"])))
        numpy.testing.assert_allclose(numpy.linalg.norm(v, axis=1), 1, rtol=1e-5)
        numpy.testing.assert_array_equal(v[0], v[2])
        self.assertLess(v[0] @ v[1], 0.9999)
        numpy.testing.assert_array_equal(self.model.embed("A cat is asleep."), v[1])
        self.assertEqual(self.model.embed([]).shape[0], 0)

    def test_reads(self):
        tokens = self.model.tokenize("Once upon a time")
        self.assertEqual(self.model.detokenize(tokens).strip(), "Once upon a time")
        ranked = self.model.rerank("a cat", ["A dog.", "a cat"])
        self.assertEqual([r["index"] for r in ranked], [1, 0])
        self.assertEqual(self.model.decide("Once upon a", [" zebra", " time"])[0]["answer"], " time")
        asked = self.model.decide([{"role": "user", "content": "?"}], ["yes", "no"])
        self.assertAlmostEqual(sum(a["probability"] for a in asked), 1)
        with self.assertRaises(quern.InvalidError):
            self.model.detokenize([-1])
        with self.assertRaises(quern.UnsupportedError):
            list(self.model.transcribe(b"RIFF"))

    def test_session(self):
        system = [{"role": "system", "content": "Tell stories."}]
        with self.model.session(system, max_tokens=8, temperature=0) as session:
            first = session.complete("A story of a cat, please.")
            fork = session.fork()
            for event in fork.chat([{"role": "user", "content": "And of a dog."}]):
                pass
            self.assertEqual([len(session.messages), len(fork.messages)], [3, 5])
            self.assertEqual(session.messages[-1], first["message"])
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "sessiön")
                fork.save(path)
                again = self.model.session(restore=path, max_tokens=8, temperature=0)
                self.assertEqual(again.messages, fork.messages)
                path.write_bytes(b"x")
                with self.assertRaises(quern.FileError):
                    self.model.session(restore=path)
            self.assertEqual(again.complete("Go on.")["message"], fork.complete("Go on.")["message"])
        with self.assertRaises(quern.ClosedError):
            session.messages

    def test_device(self):
        with quern.Device(threads=2, memory=1 << 30) as device:
            models = [quern.Model("demo", device=device, context_length=256) for _ in range(2)]
            self.assertEqual(len({str(m.complete(**STORY)["message"]) for m in models}), 1)
            self.assertEqual((device.info["threads"], device.info["models"]), (2, 2))
            self.assertLess(0, device.info["memory_used"])
        with self.assertRaises(quern.ClosedError):
            models[0].complete(**STORY)
        with self.assertRaises(quern.InvalidError):
            quern.Device(threads=-1)

    def test_threads(self):
        want, got = self.model.complete(**STORY)["message"], []

        def work():
            for _ in range(5):
                got.append(self.model.complete(**STORY)["message"])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, [want] * 40)

    def test_cancel(self):
        with self.model.chat(**STORY) as call:
            next(call)
            call.cancel()
            with self.assertRaises(quern.CancelledError):
                list(call)
        with self.assertRaises(quern.ClosedError):
            next(call)
        with self.assertRaises(quern.ClosedError):
            call.cancel()
        for _ in range(100):
            next(self.model.chat(**STORY))  # is closed when nobody has it
        gc.collect()
        self.assertEqual(len(self.model.complete(**STORY)), 5)

    def test_errors(self):
        for error, request, text in [
            (quern.InvalidError, {}, "want messages or prompt"),
            (quern.InvalidError, dict(prompt="x", messages=[]), "want messages or prompt"),
            (quern.InvalidError, dict(prompt="x", temprature=1), 'no field "temprature"'),
            (quern.InvalidError, dict(prompt="x", temperature="hot"), "temperature is a string"),
            (quern.InvalidError, dict(prompt="x", max_tokens=0), "want at least 1"),
            (quern.InvalidError, dict(prompt="x", n=2), "n: 2"),
            (quern.InvalidError, dict(prompt="x", stop=[1]), "list of texts"),
            (quern.InvalidError, dict(prompt="\ud800"), "not UTF-8"),
            (quern.InvalidError, dict(messages=[{"role": "robot", "content": "x"}]), "robot"),
            (quern.InvalidError, dict(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), "image_url"),
            (quern.InvalidError, dict(prompt="x", response_format={"type": "xml"}), "xml"),
            (quern.InvalidError, dict(prompt="x", tool_choice="perhaps"), "perhaps"),
            (quern.ContextFullError, dict(prompt="a long story " * 1000), "tokens"),
        ]:
            with self.subTest(request=str(request)[:80]), self.assertRaises(error) as raised:
                self.model.complete(**request)
            self.assertIn(text, str(raised.exception))
        with self.assertRaises(quern.InvalidError):
            quern.Model("demo", contxt_length=5)
        with self.assertRaisesRegex(quern.InvalidError, "context_length"):
            quern.Model("demo", context_length=10**12)
        with self.assertRaises(quern.Error):
            quern.Model("/nonexistent.gguf")
        model = quern.Model("demo")
        call = model.chat(**STORY)
        model.close()
        with self.assertRaises(quern.ClosedError):
            list(call)
        with self.assertRaises(quern.ClosedError):
            model.chat(**STORY)

    def test_fork(self):
        child = os.fork()
        if child == 0:
            try:
                self.model.chat(**STORY)
            except quern.ForkedError:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_program(self):
        beside = os.path.join(os.path.dirname(sys.executable), "quern")
        out = subprocess.run([beside, "run", "-n", "5", "-p", "Once"], capture_output=True, text=True, check=True)
        self.assertIn(" upon a time", out.stdout)


if __name__ == "__main__":
    unittest.main()
