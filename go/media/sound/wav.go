package sound

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

func isWAV(data []byte) bool {
	return len(data) >= 12 && (begins("RIFF")(data) || begins("RF64")(data)) && string(data[8:12]) == "WAVE"
}

// Kinds of samples, by the tag of a format (RFC 2361).
const (
	tagPCM        = 1
	tagFloat      = 3
	tagALaw       = 6
	tagMuLaw      = 7
	tagExtensible = 0xfffe // the kind is in the first bytes of a GUID
)

// decodeWAV reads the chunks of a RIFF file up to its samples. A data chunk that says that it is longer than the file, as
// streams do, ends with the file.
func decodeWAV(data []byte, c *collector) error {
	var kind, channels, bits int
	for rest := data[12:]; len(rest) >= 8; {
		id, n := string(rest[:4]), uint64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:]
		whole := body[:min(n, uint64(len(body)))]
		switch id {
		case "fmt ":
			if len(whole) < 16 {
				return io.ErrUnexpectedEOF
			}
			kind, channels = int(binary.LittleEndian.Uint16(whole)), int(binary.LittleEndian.Uint16(whole[2:]))
			bits = int(binary.LittleEndian.Uint16(whole[14:]))
			if kind == tagExtensible && len(whole) >= 26 {
				kind = int(binary.LittleEndian.Uint16(whole[24:]))
			}
			if err := c.begin(int(binary.LittleEndian.Uint32(whole[4:])), channels); err != nil {
				return err
			}
		case "data":
			if channels == 0 {
				return errors.New("its samples come before their format")
			}
			at, size, err := reader(kind, bits, whole)
			if err != nil {
				return err
			}
			const step = 1 << 16 // frames after which somebody may have cancelled
			for n := len(whole) / (size * channels); n > 0; n -= step {
				if err := c.mix(min(n, step), channels, at); err != nil {
					return err
				}
				whole = whole[min(step*size*channels, len(whole)):]
				at, _, _ = reader(kind, bits, whole)
			}
			return nil
		}
		rest = body[min(n+n&1, uint64(len(body))):]
	}
	return io.ErrUnexpectedEOF
}

// reader returns a function that reads sample i, and the bytes of one.
func reader(kind, bits int, data []byte) (func(i int) float64, int, error) {
	le := binary.LittleEndian
	switch {
	case kind == tagPCM && bits == 8:
		return func(i int) float64 { return (float64(data[i]) - 128) / 128 }, 1, nil
	case kind == tagPCM && bits == 16:
		return func(i int) float64 { return float64(int16(le.Uint16(data[2*i:]))) / (1 << 15) }, 2, nil
	case kind == tagPCM && bits == 24:
		return func(i int) float64 {
			return float64(int32(data[3*i])|int32(data[3*i+1])<<8|int32(int8(data[3*i+2]))<<16) / (1 << 23)
		}, 3, nil
	case kind == tagPCM && bits == 32:
		return func(i int) float64 { return float64(int32(le.Uint32(data[4*i:]))) / (1 << 31) }, 4, nil
	case kind == tagFloat && bits == 32:
		return func(i int) float64 { return finite(float64(math.Float32frombits(le.Uint32(data[4*i:])))) }, 4, nil
	case kind == tagFloat && bits == 64:
		return func(i int) float64 { return finite(math.Float64frombits(le.Uint64(data[8*i:]))) }, 8, nil
	}
	what := map[int]string{tagPCM: "PCM", tagFloat: "floats", tagALaw: "A-law", tagMuLaw: "mu-law"}[kind]
	if what == "" {
		what = fmt.Sprintf("kind %d", kind)
	}
	return nil, 0, fmt.Errorf("samples of %d bits, %s; PCM of 8, 16, 24 and 32 bits and floats of 32 and 64 are taken", bits, what)
}

// finite returns v, or silence for what is no loudness.
func finite(v float64) float64 {
	if math.Abs(v) < 1e6 {
		return v
	}
	return 0
}
