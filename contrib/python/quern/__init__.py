"""Large language models on CPUs: a thin layer over libquern, the C library.

    with quern.Model("model.gguf") as model:
        for event in model.chat([{"role": "user", "content": "Why is the sky blue?"}]):
            if event["type"] == "text":
                print(event["text"], end="")

Models and calls may be used by many threads at a time. A process that has imported this cannot be forked and go on with
it in the child, as multiprocessing does by default on Linux until Python 3.14: use its "spawn".
"""

import base64
import ctypes
import json
import pathlib
import weakref

__all__ = [
    "Device", "Model", "Session", "Call", "Error", "InvalidError", "ClosedError", "ContextFullError", "MemoryLimitError", "BusyError",
    "UnsupportedError", "FileError", "CancelledError", "ForkedError", "InternalError",
]

_lib = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libquern.so.1"))


def _declare():
    handle, text, out = ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)
    for name, result, *arguments in [
        ("version", text), ("abi", ctypes.c_int), ("last_error", text),
        ("device", handle, text), ("open", handle, text, text), ("info", ctypes.c_int, handle, out),
        ("session", handle, handle, text), ("save", ctypes.c_int, handle, text), ("chat", handle, handle, text),
        ("read", ctypes.c_int, handle, text, out),
        ("next", ctypes.c_int, handle, ctypes.c_int, out), ("complete", ctypes.c_int, handle, text, out),
        ("embed", ctypes.c_int, handle, text, ctypes.c_void_p, ctypes.c_size_t),
        ("cancel", ctypes.c_int, handle), ("close", ctypes.c_int, handle), ("free", None, ctypes.c_void_p),
    ]:
        function = getattr(_lib, "quern_" + name)
        function.restype, function.argtypes = result, arguments


_declare()
if _lib.quern_abi() != 1:
    raise ImportError(f"libquern has ABI {_lib.quern_abi()}, want 1")
__version__ = _lib.quern_version().decode()


class Error(Exception):
    """What libquern says is wrong. Its classes are the codes of libquern.h."""


class InvalidError(Error):
    """The request, or an option, is not valid."""


class ClosedError(Error):
    """The model or the call was closed."""


class ContextFullError(Error):
    """The text does not fit in the context of the model."""


class MemoryLimitError(Error):
    """There is not enough memory."""


class BusyError(Error):
    """Too many calls wait, or another thread takes the events of the call."""


class UnsupportedError(Error):
    """The model, or this version, cannot do that."""


class FileError(Error):
    """A file cannot be read, or is no model."""


class CancelledError(Error):
    """The call was cancelled."""


class ForkedError(Error):
    """This process is a child of fork()."""


class InternalError(Error):
    """A fault in the library."""


_TIMEOUT = -9
_CODES = {
    -1: InvalidError, -2: ClosedError, -3: ContextFullError, -4: MemoryLimitError, -5: BusyError, -6: UnsupportedError,
    -7: FileError, -8: CancelledError, -10: ForkedError, -11: InternalError,
}
# Python handles Ctrl-C between calls into C, so none of them waits longer, in milliseconds.
_SLICE = 100


def _check(status):
    if status < 0:
        raise _CODES.get(status, Error)(_lib.quern_last_error().decode())
    return status


def _take(out):
    """The JSON that a function returned."""
    try:
        return json.loads(ctypes.string_at(out))
    finally:
        _lib.quern_free(out)


def _next(handle):
    """The next event of a handle, or None after the last."""
    out = ctypes.c_void_p()
    while True:
        status = _lib.quern_next(handle, _SLICE, ctypes.byref(out))
        if status != _TIMEOUT:
            return _take(out) if _check(status) else None


def _request(fields):
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _path(name):
    name = str(name).encode("utf-8", "surrogateescape")
    if b"\0" in name:
        raise InvalidError("a name has a character 0")
    return name


def _info(handle):
    """What is known of a handle."""
    out = ctypes.c_void_p()
    _check(_lib.quern_info(handle, ctypes.byref(out)))
    return _take(out)


class _Open:
    """What has a handle, and is closed when nobody has it."""

    def __init__(self, handle):
        self._handle = _check(handle)
        self._close = weakref.finalize(self, _lib.quern_close, self._handle)

    def cancel(self):
        """Ends what is under way: who waits for it gets CancelledError."""
        _check(_lib.quern_cancel(self._handle))

    def close(self):
        """Ends it, with all that it has, and frees it. Closing again does nothing."""
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Call(_Open):
    """The answer to a request: an iterator of events, each a dict. It ends when the answer does.

    Where nobody goes on with it, it is closed, and the model does not go on either. `result` is its last event.
    """

    def __init__(self, handle):
        self.result = None
        super().__init__(handle)

    def __iter__(self):
        return self

    def __next__(self):
        if not self._close.alive and self.result is not None:
            raise StopIteration
        try:
            event = _next(self._handle)
        except BusyError:
            raise
        except BaseException:
            self.close()
            raise
        if event is None:
            self.close()
            raise StopIteration
        if event["type"] in ("result", "transcript"):
            self.result = event
        return event


def _last(call):
    with call:
        for _ in call:
            pass
        return call.result


class Device(_Open):
    """Threads and memory that models share: Device(threads=8, memory=16 << 30), by default all that there is.

    Models are opened on it by Model(name, device=device), and closed with it.
    """

    def __init__(self, **options):
        super().__init__(_lib.quern_device(_request(options)))

    @property
    def info(self):
        """Its threads and the use of its memory."""
        return _info(self._handle)


class Model(_Open):
    """An open model: `name` is a file, a folder, a name such as hf.co/ORG/REPO:QUANT, or "demo".

    `progress` is called with events while it is downloaded and loaded. The other options are those of quern_open, such
    as context_length=8192; device is a Device. `info` is what is known of the model.
    """

    def __init__(self, name, *, progress=None, device=None, **options):
        if device is not None:
            options["device"] = device._handle
        self._device = device  # which is closed when nobody has it
        super().__init__(_lib.quern_open(_path(name), _request(options)))
        try:
            while (event := _next(self._handle)) is not None:
                if progress is not None:
                    progress(event)
            self.info = _info(self._handle)
        except BaseException:
            self.close()
            raise

    def chat(self, messages=None, **request):
        """Begins to answer messages, in OpenAI's form, and returns a Call: what is new of the answer, event by event.

        The other arguments are the fields of OpenAI's chat completions, such as tools, response_format and temperature,
        or prompt="...", a text that is continued, in place of messages.
        """
        if messages is not None:
            request["messages"] = messages
        return Call(_lib.quern_chat(self._handle, _request(request)))

    def complete(self, messages=None, **request):
        """The whole answer, which is the last event of chat(): a dict with message, finish_reason and usage.

        A text in place of messages is continued.
        """
        if isinstance(messages, str):
            messages, request["prompt"] = None, messages
        return _last(self.chat(messages, **request))

    def session(self, messages=None, *, restore=None, **options):
        """Begins a Session, a conversation: messages that come first, and options that each turn has, as those of chat().

        With restore, the path of a file, it goes on with one that was saved.
        """
        if messages is not None:
            options["messages"] = messages
        if restore is not None:
            options["restore"] = _path(restore).decode("utf-8", "surrogatepass")
        return Session(_lib.quern_session(self._handle, _request(options)), self)

    def transcribe(self, audio, **options):
        """Begins to write down what is said in a file of sound (bytes), with a model of speech, and returns a Call.

        Its events are segments with their times, and the transcript; options are such as language="de".
        """
        options["audio"] = base64.b64encode(audio).decode()
        return Call(_lib.quern_chat(self._handle, _request(options)))

    def embed(self, texts):
        """The vectors of texts, each of length 1: an array of float32 with a row for each; of one text, a vector."""
        import numpy

        one = isinstance(texts, str)
        texts = [texts] if one else list(texts)
        vectors = numpy.empty((len(texts), self.info["vector_size"]), numpy.float32)
        if texts:
            at = ctypes.c_void_p(vectors.ctypes.data)
            _check(_lib.quern_embed(self._handle, _request({"input": texts}), at, vectors.size))
        return vectors[0] if one else vectors

    def rerank(self, query, documents):
        """Documents by what they have to say on a query, the best first: a list of dicts with index and relevance_score."""
        return self._read(query=query, documents=list(documents))["results"]

    def decide(self, messages, answers):
        """How likely the model is to give each of some answers to messages, or to go on so after a text.

        The likeliest comes first: a list of dicts with index, answer, probability and logprob.
        """
        asked = {"prompt": messages} if isinstance(messages, str) else {"messages": messages}
        return self._read(answers=list(answers), **asked)["answers"]

    def tokenize(self, text):
        """The numbers of the tokens of a text, as a prompt has them."""
        return self._read(text=text)["tokens"]

    def detokenize(self, tokens):
        """The text of tokens."""
        return self._read(tokens=[int(t) for t in tokens])["text"]

    def _read(self, **request):
        out = ctypes.c_void_p()
        _check(_lib.quern_read(self._handle, _request(request), ctypes.byref(out)))
        return _take(out)


class Session(_Open):
    """A conversation with a model, whose beginning stays evaluated, so that a turn costs its own tokens.

    A turn that fails or is left is no part of it.
    """

    def __init__(self, handle, model):
        self._model = model  # which is closed when nobody has it
        super().__init__(handle)

    @property
    def messages(self):
        """What was said so far."""
        return _info(self._handle)["messages"]

    def chat(self, messages):
        """Begins to answer messages, which follow those of the session, or a text of the user, and returns a Call."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return Call(_lib.quern_chat(self._handle, _request({"messages": messages})))

    def complete(self, messages):
        """The whole answer, which is the last event of chat()."""
        return _last(self.chat(messages))

    def fork(self):
        """A session that begins as this one, at the cost of what comes after."""
        return Session(_lib.quern_session(self._handle, None), self._model)

    def save(self, path):
        """Writes the session to a file, from which Model.session(restore=path) goes on."""
        _check(_lib.quern_save(self._handle, _path(path)))
