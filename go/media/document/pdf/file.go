// Package pdf reads the text layer of PDF files (ISO 32000-2).
//
// A file is read from its front to its back, and objects are found where they stand: tables of their places, which damaged
// files have wrong and hostile ones point in circles, are not read. Of objects with one number the last is valid, as where a
// file was changed by adding to it.
package pdf

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// An Error says why a file has no text that can be read.
type Error string

func (e Error) Error() string { return string(e) }

// A LargeError says which limit a file passes.
type LargeError string

func (e LargeError) Error() string { return string(e) }

// Errors of files that are whole.
const (
	ErrPassword = Error("encrypted with a password; save it without one")
	ErrHandler  = Error("encrypted in a way that is not read; save it without encryption")
	ErrFonts    = Error("its fonts do not say which characters they show; send its pages as images")
)

// Limits bound a file.
type Limits struct {
	Pages  int               // that it has
	Text   int               // bytes of text
	Unpack func(n int) error // is called for bytes that are unpacked, and now and then with 0; an error ends the reading
}

const (
	maxObjects = 1 << 20
	perObject  = 100      // bytes that are kept of where one is
	maxStream  = 64 << 20 // bytes of a stream, and of all those with objects in them, that are unpacked
)

// A place is where an object stands: in the file, or in a stream of objects.
type place struct {
	at  int
	gen int
	in  []byte // nil: the file
}

// A file is an open one.
type file struct {
	data   []byte
	limits Limits
	found  []found
	places map[int]place
	root   any
	locked any // the dictionary of encryption
	id     []byte
	lock   *lock // nil: it is in the clear
	packed int   // bytes of streams of objects
	fonts  map[int]*font
	err    error // of limits
}

// found is an object that stands in the file.
type found struct {
	num, gen, at int
	objects      bool // it is a stream of them
}

func open(data []byte, l Limits) (*file, error) {
	f := &file{data: data, limits: l, places: map[int]place{}, fonts: map[int]*font{}}
	if err := f.scan(); err != nil {
		return nil, err
	}
	for _, o := range f.found {
		f.places[o.num] = place{at: o.at, gen: o.gen}
	}
	if f.locked != nil {
		var err error
		if f.lock, err = f.unlock(); err != nil {
			return nil, err
		}
	}
	clear(f.places) // once more in their order, with those that are in streams
	for _, o := range f.found {
		f.places[o.num] = place{at: o.at, gen: o.gen}
		if o.objects {
			if err := f.unpackObjects(o); err != nil {
				return nil, err
			}
		}
	}
	if _, ok := f.get(f.root).(dict); !ok {
		f.root = f.catalog()
	}
	return f, f.err
}

// scan finds the objects and trailers of the file.
func (f *file) scan() error {
	for at := 0; at < len(f.data); {
		next := bytes.Index(f.data[at:], []byte("obj"))
		if next < 0 {
			next = len(f.data) - at
		}
		if err := f.trailers(at, at+next); err != nil {
			return err
		}
		if at+next >= len(f.data) {
			break
		}
		num, gen, ok := headOf(f.data[:at+next])
		at += next + len("obj")
		if !ok {
			continue
		}
		if len(f.found) >= maxObjects {
			return LargeError(fmt.Sprintf("more than %d objects", maxObjects))
		}
		if err := f.charge(perObject); err != nil {
			return err
		}
		o := found{num: num, gen: gen, at: at}
		l := lexer{data: f.data, at: at}
		if l.skip(); !bytes.HasPrefix(f.data[l.at:], []byte("<<")) {
			f.found = append(f.found, o)
			continue
		}
		d, _ := l.next().(dict)
		if _, ok := f.streamAt(&l, d); ok {
			switch d["Type"] {
			case name("ObjStm"):
				o.objects = true
			case name("XRef"):
				f.trailer(d)
			}
			at = l.at
		}
		f.found = append(f.found, o)
	}
	return nil
}

// trailers takes those between two places.
func (f *file) trailers(at, end int) error {
	const word = "trailer"
	for {
		n := bytes.Index(f.data[at:end], []byte(word))
		if n < 0 {
			return nil
		}
		at += n + len(word)
		l := lexer{data: f.data, at: at}
		if d, ok := l.next().(dict); ok {
			f.trailer(d)
		}
		if err := f.charge(perObject); err != nil {
			return err
		}
	}
}

// headOf reads the two numbers before "obj".
func headOf(before []byte) (num, gen int, ok bool) {
	const most = 24
	before = before[max(0, len(before)-most):]
	digits := func() (int, bool) {
		trimmed := bytes.TrimRight(before, " \t\r\n\f\x00")
		if len(trimmed) == len(before) {
			return 0, false
		}
		from := len(trimmed)
		for from > 0 && trimmed[from-1] >= '0' && trimmed[from-1] <= '9' {
			from--
		}
		n, err := strconv.ParseUint(string(trimmed[from:]), 10, 31)
		before = trimmed[:from]
		return int(n), err == nil
	}
	if gen, ok = digits(); !ok {
		return 0, 0, false
	}
	num, ok = digits()
	return num, gen & 0xffff, ok
}

// streamAt returns the bytes of a stream whose dictionary was read, and goes behind them.
func (f *file) streamAt(l *lexer, d dict) ([]byte, bool) {
	if l.skip(); !l.begins("stream") {
		return nil, false
	}
	if !l.begins("\r\n") && !l.begins("\n") {
		l.begins("\r")
	}
	const end = "endstream"
	if n, ok := index(d["Length"]); ok && n <= len(f.data)-l.at {
		rest := f.data[l.at+n:]
		if at := bytes.Index(rest[:min(len(rest), len(end)+4)], []byte(end)); at >= 0 {
			raw := f.data[l.at : l.at+n]
			l.at += n + at + len(end)
			return raw, true
		}
	}
	raw := f.data[l.at:]
	if at := bytes.Index(raw, []byte(end)); at >= 0 {
		raw = raw[:at]
	}
	l.at = min(l.at+len(raw)+len(end), len(f.data))
	if n := len(raw); n > 0 && raw[n-1] == '\n' {
		raw = raw[:n-1]
	}
	if n := len(raw); n > 0 && raw[n-1] == '\r' {
		raw = raw[:n-1]
	}
	return raw, true
}

// trailer takes what a trailer says. The last that names a root is valid.
func (f *file) trailer(d dict) {
	if d["Root"] == nil {
		return
	}
	f.root = d["Root"]
	if d["Encrypt"] != nil {
		f.locked = d["Encrypt"]
	}
	if id, ok := d["ID"].(array); ok && len(id) > 0 {
		if first, ok := id[0].(text); ok {
			f.id = []byte(first)
		}
	}
}

// catalog looks for the root where no trailer names it.
func (f *file) catalog() any {
	for _, o := range f.found {
		if d, ok := f.get(ref{o.num, 0}).(dict); ok && d["Type"] == name("Catalog") {
			return d
		}
	}
	for _, num := range slices.Sorted(maps.Keys(f.places)) {
		if d, ok := f.get(ref{num, 0}).(dict); ok && d["Type"] == name("Catalog") {
			return d
		}
	}
	return nil
}

// unpackObjects notes the places of objects in a stream.
func (f *file) unpackObjects(o found) error {
	s, ok := f.get(ref{o.num, 0}).(*stream)
	if !ok {
		return nil
	}
	data, err := f.decode(s)
	if err != nil {
		return err
	}
	if f.packed += len(data); f.packed > maxStream {
		return LargeError(fmt.Sprintf("more than %d MiB of objects", maxStream>>20))
	}
	n, _ := index(f.get(s.dict["N"]))
	first, _ := index(f.get(s.dict["First"]))
	l := lexer{data: data[:min(first, len(data))]}
	for range n {
		l.cost = 0
		num, ok := index(l.next())
		at, fine := index(l.next())
		if !ok || !fine {
			break
		}
		if err := f.charge(perObject); err != nil {
			return err
		}
		if first+at < len(data) && len(f.places) < maxObjects {
			f.places[num] = place{at: first + at, in: data}
		}
	}
	return nil
}

// maxLinks bounds references to references.
const maxLinks = 16

// get returns an object, or that which a reference names; nil: there is none.
func (f *file) get(v any) any {
	for range maxLinks {
		r, ok := v.(ref)
		if !ok {
			return v
		}
		v = f.object(r.num)
	}
	return nil
}

// object returns an object by its number.
func (f *file) object(num int) any {
	p, ok := f.places[num]
	if !ok || f.tick() != nil {
		return nil
	}
	l := lexer{data: f.data, at: p.at}
	if p.in != nil {
		l.data = p.in
	}
	v := l.next()
	if f.weigh(l.cost) != nil {
		return nil
	}
	of := ref{num, p.gen}
	if p.in == nil {
		if d, ok := v.(dict); ok {
			if raw, ok := f.streamAt(&l, d); ok {
				v = &stream{dict: d, raw: raw, of: of}
			}
		}
		if f.lock != nil {
			v = f.lock.texts(v, of)
		}
	}
	if v == (done{}) {
		return nil
	}
	if _, ok := v.(keyword); ok {
		return nil
	}
	return v
}

func (f *file) dict(v any) dict {
	switch d := f.get(v).(type) {
	case dict:
		return d
	case *stream:
		return d.dict
	}
	return nil
}

func (f *file) array(v any) array {
	a, _ := f.get(v).(array)
	return a
}

func (f *file) number(v any, otherwise float64) float64 {
	if n, ok := f.get(v).(float64); ok {
		return n
	}
	return otherwise
}

// tick returns an error once a limit is passed.
func (f *file) tick() error { return f.charge(0) }

// weigh counts what was made, unless it is small: that much is read again and again, and left.
func (f *file) weigh(cost int) error {
	if cost <= freeCost {
		return f.err
	}
	return f.charge(cost)
}

// charge counts bytes that are kept, beside those that are unpacked.
func (f *file) charge(n int) error {
	if f.err == nil {
		f.err = f.limits.Unpack(n)
	}
	return f.err
}
