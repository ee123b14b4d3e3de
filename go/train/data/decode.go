package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// A lineCounter counts the bytes and lines that are read, and fails where a record is too long.
type lineCounter struct {
	in    io.Reader
	line  int   // of the next byte, from 1 on
	read  int64 // bytes
	least int64 // where the record that is being read begins
	ends  []int64
}

var errLong = fmt.Errorf("a record of more than %d MiB", MaxLine>>20)

func (l *lineCounter) Read(p []byte) (int, error) {
	if l.read-l.least > MaxLine {
		return 0, errLong
	}
	n, err := l.in.Read(p)
	for at := 0; ; {
		i := bytes.IndexByte(p[at:n], '\n')
		if i < 0 {
			break
		}
		at += i + 1
		l.ends = append(l.ends, l.read+int64(at))
	}
	l.read += int64(n)
	return n, err
}

// seek sets the line to that of the byte at an offset, which does not go back.
func (l *lineCounter) seek(at int64) {
	l.least = at
	n := 0
	for n < len(l.ends) && l.ends[n] <= at {
		n++
	}
	l.line += n
	l.ends = append(l.ends[:0], l.ends[n:]...)
}

// A decoder reads JSON values one by one.
type decoder struct {
	lines *lineCounter
	json  *jsontext.Decoder
	list  bool // they are in a list
	begun bool
	line  int // of the last one
}

func newDecoder(in *lineCounter) *decoder {
	return &decoder{lines: in, json: jsontext.NewDecoder(in), line: 1}
}

// next returns the next value, or io.EOF. It is valid until the next call.
func (d *decoder) next() (jsontext.Value, error) {
	if !d.begun {
		d.begun = true
		if d.json.PeekKind() == '[' {
			d.list = true
			if _, err := d.json.ReadToken(); err != nil {
				return nil, d.failed(err)
			}
		}
	}
	if d.list && d.json.PeekKind() == ']' {
		if _, err := d.json.ReadToken(); err != nil {
			return nil, d.failed(err)
		}
		d.list = false
		if kind := d.json.PeekKind(); kind != 0 {
			return nil, errors.New("more after the end of the list")
		}
	}
	value, err := d.json.ReadValue()
	if err != nil {
		return nil, d.failed(err)
	}
	d.lines.seek(d.json.InputOffset() - int64(len(value)))
	d.line = d.lines.line
	return value, nil
}

func (d *decoder) failed(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !d.list {
		return io.EOF
	}
	at := d.json.InputOffset()
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		at = syntax.ByteOffset
	}
	d.lines.seek(at)
	d.line = d.lines.line
	if errors.Is(err, errLong) {
		return errLong
	}
	if syntax != nil {
		return fmt.Errorf("no JSON: %w", syntax.Err)
	}
	return err
}
