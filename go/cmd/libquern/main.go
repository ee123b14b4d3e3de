// Command libquern is the C library: libquern.so and libquern.a, built by make libquern. Its functions are described in
// libquern.h, and its JSON in docs/bindings.md.
//
// A C function checks what it can and calls the Go function of its name here. No panic goes through: it becomes an error.
package main

// #include <stdlib.h>
// #include "door.h"
import "C"

import (
	"context"
	"runtime/debug"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/quern-llm/quern"
)

func main() {}

// version is set by the release build with -X main.version=v0.1.0.
var version string

// all are the handles that are open.
var all handles

//export doorVersion
func doorVersion(to *C.char, size C.size_t) {
	name := version
	if info, ok := debug.ReadBuildInfo(); ok && name == "" {
		name = info.Main.Version
	}
	if name == "" {
		name = "(devel)"
	}
	write(to, int(size), name)
}

//export doorOpen
func doorOpen(name, options *C.door_text, last *C.char) (handle C.int64_t) {
	code := guard(last, func() error {
		o, device, err := readOptions(given(options))
		if err != nil {
			return err
		}
		path := given(name)
		if !utf8.ValidString(path) {
			return invalid("the name of the model is not UTF-8")
		}
		h, err := all.open(path, o, device)
		handle = C.int64_t(h)
		return err
	})
	if code != C.QUERN_OK {
		return C.int64_t(code)
	}
	return handle
}

//export doorDevice
func doorDevice(options *C.door_text, last *C.char) (handle C.int64_t) {
	code := guard(last, func() error {
		config, err := readDevice(given(options))
		if err != nil {
			return err
		}
		d, err := quern.NewDevice(config)
		if err != nil {
			return err
		}
		handle = C.int64_t(all.add(&device{d}))
		return nil
	})
	if code != C.QUERN_OK {
		return C.int64_t(code)
	}
	return handle
}

//export doorInfo
func doorInfo(handle C.int64_t, to **C.char, last *C.char) C.int {
	return guard(last, func() error {
		info, err := all.info(int64(handle))
		if err == nil {
			*to = C.CString(string(info))
		}
		return err
	})
}

//export doorChat
func doorChat(of C.int64_t, request *C.door_text, last *C.char) (handle C.int64_t) {
	code := guard(last, func() error {
		m, s, err := all.talker(int64(of))
		if err != nil {
			return err
		}
		t, err := readTalk(s, given(request))
		if err != nil {
			return err
		}
		h, err := all.chat(m, s, t)
		handle = C.int64_t(h)
		return err
	})
	if code != C.QUERN_OK {
		return C.int64_t(code)
	}
	return handle
}

//export doorSession
func doorSession(of C.int64_t, options *C.door_text, last *C.char) (handle C.int64_t) {
	code := guard(last, func() error {
		h, err := all.beginSession(int64(of), given(options))
		handle = C.int64_t(h)
		return err
	})
	if code != C.QUERN_OK {
		return C.int64_t(code)
	}
	return handle
}

//export doorSave
func doorSave(handle C.int64_t, path *C.door_text, last *C.char) C.int {
	return guard(last, func() error {
		s, err := all.session(int64(handle))
		if err != nil {
			return err
		}
		return s.save(given(path))
	})
}

//export doorRead
func doorRead(model C.int64_t, request *C.door_text, to **C.char, last *C.char) C.int {
	return guard(last, func() error {
		m, err := all.model(int64(model))
		if err != nil {
			return err
		}
		read, err := readReading(given(request))
		if err != nil {
			return err
		}
		var result any
		err = m.do(func(ctx context.Context, open *quern.Model) (err error) {
			result, err = read(ctx, open)
			return err
		})
		if err == nil {
			*to = C.CString(string(compact(result)))
		}
		return err
	})
}

//export doorNext
func doorNext(handle C.int64_t, timeout C.int, to **C.char, last *C.char) (status C.int) {
	code := guard(last, func() error {
		c, err := all.call(int64(handle))
		if err != nil {
			return err
		}
		event, err := c.next(int(timeout))
		if event != nil {
			*to, status = C.CString(string(event)), 1
		}
		return err
	})
	if code != C.QUERN_OK {
		return code
	}
	return status
}

//export doorComplete
func doorComplete(of C.int64_t, request *C.door_text, to **C.char, last *C.char) C.int {
	return guard(last, func() error {
		m, s, err := all.talker(int64(of))
		if err != nil {
			return err
		}
		t, err := readTalk(s, given(request))
		if err != nil {
			return err
		}
		var event []byte
		err = m.doIn(s, func(ctx context.Context, open *quern.Model) error {
			for e, err := range t(ctx, open) {
				if err != nil {
					return err
				}
				event = e
			}
			return nil
		})
		if err == nil {
			*to = C.CString(string(event))
		}
		return err
	})
}

//export doorEmbed
func doorEmbed(model C.int64_t, request *C.door_text, vectors *C.float, count C.size_t, last *C.char) C.int {
	return guard(last, func() error {
		m, err := all.model(int64(model))
		if err != nil {
			return err
		}
		texts, err := readTexts(given(request))
		if err != nil {
			return err
		}
		var made [][]float32
		err = m.do(func(ctx context.Context, open *quern.Model) error {
			size := open.Info().VectorSize
			if want := uint64(len(texts)) * uint64(size); uint64(count) != want {
				return invalid("there is room for %d floats, and %d texts make vectors of %d each: want %d",
					count, len(texts), size, want)
			}
			var err error
			made, err = open.Embed(ctx, texts...)
			return err
		})
		if err != nil {
			return err
		}
		to := unsafe.Slice((*float32)(unsafe.Pointer(vectors)), int(count))
		for _, v := range made {
			to = to[copy(to, v):]
		}
		return nil
	})
}

//export doorCancel
func doorCancel(handle C.int64_t, last *C.char) C.int {
	return guard(last, func() error { return all.cancel(int64(handle)) })
}

//export doorClose
func doorClose(handle C.int64_t, last *C.char) C.int {
	return guard(last, func() error { return all.close(int64(handle)) })
}

// given returns a string of C's, which is nil for none.
func given(s *C.door_text) string { return C.GoString((*C.char)(unsafe.Pointer(s))) }

// guard returns the code of the error of f, whose text it leaves in last.
func guard(last *C.char, f func() error) C.int {
	err := guarded(f)
	if err == nil {
		return C.QUERN_OK
	}
	text, _, _ := strings.Cut(inFields.Replace(err.Error()), "\n")
	write(last, C.DOOR_ERROR, text)
	return C.int(codeOf(err))
}

// write writes the beginning of a text, as far as it has room with a 0 after it, in whole characters.
func write(to *C.char, size int, text string) {
	n := min(len(text), size-1)
	for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(to)), size)
	b[copy(b, text[:n])] = 0
}
