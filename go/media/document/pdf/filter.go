package pdf

import (
	"bytes"
	"compress/zlib"
	"encoding/ascii85"
	"fmt"
	"io"

	"golang.org/x/image/tiff/lzw"
)

// maxFilters bounds those of a stream.
const maxFilters = 8

// decode returns what is in a stream. One that is damaged is what could be read of it. Of a filter for pictures there is nothing.
func (f *file) decode(s *stream) ([]byte, error) {
	data := s.raw
	filters, parms := f.list(s.dict, "Filter", "F"), f.list(s.dict, "DecodeParms", "DP")
	if len(filters) > maxFilters {
		return nil, Error(fmt.Sprintf("a stream with more than %d filters", maxFilters))
	}
	if f.lock != nil && !f.inClear(filters, parms) {
		data = f.lock.stream(s)
	}
	for i, one := range filters {
		var parm dict
		if i < len(parms) {
			parm = f.dict(parms[i])
		}
		which, _ := f.get(one).(name)
		var r io.Reader
		switch which {
		case "FlateDecode", "Fl":
			z, err := zlib.NewReader(bytes.NewReader(data))
			if err != nil {
				return nil, nil
			}
			r = z
		case "LZWDecode", "LZW":
			r = lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8) // TIFF's widens codes one early, as here
		case "ASCII85Decode", "A85":
			r = ascii85.NewDecoder(bytes.NewReader(plain85(data)))
		case "ASCIIHexDecode", "AHx":
			l := lexer{data: data}
			data = []byte(l.hex())
			continue
		case "RunLengthDecode", "RL":
			r = &runs{in: data}
		case "Crypt":
			continue
		default:
			return nil, nil
		}
		var err error
		if data, err = f.readAll(r); err != nil {
			return nil, err
		}
		if which[0] == 'F' || which[0] == 'L' {
			data = f.predicted(data, parm)
		}
	}
	return data, nil
}

// inClear reports whether a stream of an encrypted file is not: its first filter says so.
func (f *file) inClear(filters, parms array) bool {
	if len(filters) == 0 || f.get(filters[0]) != name("Crypt") {
		return false
	}
	if len(parms) == 0 {
		return true
	}
	how := f.get(f.dict(parms[0])["Name"])
	return how == nil || how == name("Identity")
}

// list is an entry that may be one value or several.
func (f *file) list(d dict, names ...name) array {
	for _, n := range names {
		switch v := f.get(d[n]).(type) {
		case nil:
		case array:
			return v
		default:
			return array{v}
		}
	}
	return nil
}

// readAll reads what a filter makes, as far as it can.
func (f *file) readAll(r io.Reader) ([]byte, error) {
	var out bytes.Buffer
	part := make([]byte, 32<<10)
	for {
		n, err := r.Read(part)
		if err := f.charge(n); err != nil {
			return nil, err
		}
		if out.Len()+n > maxStream {
			f.err = LargeError(fmt.Sprintf("a stream of more than %d MiB", maxStream>>20))
			return nil, f.err
		}
		out.Write(part[:n])
		if err != nil {
			return out.Bytes(), nil
		}
	}
}

// plain85 is ASCII85 without its marks.
func plain85(data []byte) []byte {
	data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("<~"))
	if at := bytes.IndexByte(data, '~'); at >= 0 {
		data = data[:at]
	}
	return data
}

// runs decodes lengths of runs.
type runs struct {
	in   []byte
	left []byte
}

func (r *runs) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if len(r.in) < 2 || r.in[0] == 128 {
			return 0, io.EOF
		}
		if n := int(r.in[0]); n < 128 {
			end := min(n+2, len(r.in))
			r.left, r.in = r.in[1:end], r.in[end:]
		} else {
			r.left, r.in = bytes.Repeat(r.in[1:2], 257-n), r.in[2:]
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// predicted undoes predictions of PNG, which rows begin with, and of TIFF for bytes.
func (f *file) predicted(data []byte, parm dict) []byte {
	kind := f.number(parm["Predictor"], 1)
	if kind < 2 {
		return data
	}
	size := func(n name, otherwise, most float64) int {
		return int(max(1, min(f.number(parm[n], otherwise), most)))
	}
	colors, bits, columns := size("Colors", 1, 64), size("BitsPerComponent", 8, 16), size("Columns", 1, 1<<20)
	row, pixel := (colors*bits*columns+7)/8, max(1, colors*bits/8)
	if kind == 2 {
		if bits != 8 {
			return data
		}
		for from := 0; from+row <= len(data); from += row {
			for i := from + pixel; i < from+row; i++ {
				data[i] += data[i-pixel]
			}
		}
		return data
	}
	out := make([]byte, 0, len(data))
	above := make([]byte, min(row, len(data))) // a row may say that it is longer than all there is
	for len(data) > 1 {
		how, line := data[0], data[1:min(row+1, len(data))]
		data = data[1+len(line):]
		for i := range line {
			var left, corner byte
			if i >= pixel {
				left, corner = line[i-pixel], above[i-pixel]
			}
			switch how {
			case 1:
				line[i] += left
			case 2:
				line[i] += above[i]
			case 3:
				line[i] += byte((int(left) + int(above[i])) / 2)
			case 4:
				line[i] += paeth(left, above[i], corner)
			}
		}
		copy(above, line)
		out = append(out, line...)
	}
	return out
}

// paeth is the neighbour that is nearest to what a plane through all three would be.
func paeth(left, up, corner byte) byte {
	p := int(left) + int(up) - int(corner)
	away := func(c byte) int { return max(p-int(c), int(c)-p) }
	switch a, b, c := away(left), away(up), away(corner); {
	case a <= b && a <= c:
		return left
	case b <= c:
		return up
	}
	return corner
}
