// Package sound decodes sound of files and requests: WAV, MP3 and FLAC, as samples of one channel. Length and
// memory are checked while it is decoded.
package sound

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	mp3 "github.com/hajimehoshi/go-mp3"
	"github.com/mewkiz/flac"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A Mono is sound of one channel, the mean of those that were there: samples from -1 to 1 at so many a second.
type Mono struct {
	Rate    int
	Samples []float32
}

// Limits bound what a sound may take.
type Limits struct {
	Length  time.Duration                               // maximum; 0: MaxLength
	Reserve func(bytes uint64) (free func(), err error) // asks for memory while it is decoded; nil: none is counted
}

// MaxLength is the default of Limits.Length.
const MaxLength = 30 * time.Minute

// MinRate and MaxRate bound the samples a second of sound that is taken.
const (
	MinRate = 1000
	MaxRate = 192000
)

const maxChannels = 8

var (
	// ErrFormat is the kind of error for sound that cannot be decoded: damaged, or of an unknown format.
	ErrFormat = errors.New("not sound that can be read")
	// ErrLength is the kind of error for sound that is too long.
	ErrLength = errors.New("sound too long")
)

var formats = []struct {
	name   string
	is     func(data []byte) bool
	decode func(data []byte, c *collector) error
}{
	{"WAV", isWAV, decodeWAV},
	{"FLAC", begins("fLaC"), decodeFLAC},
	{"MP3", isMP3, decodeMP3},
}

// others are formats that are recognized, and not decoded.
var others = []struct {
	name string
	is   func(data []byte) bool
}{
	{"Ogg Vorbis", isOgg("\x01vorbis")}, {"Opus", isOgg("OpusHead")}, {"Speex", isOgg("Speex")}, {"AAC", func(d []byte) bool { return len(d) > 1 && d[0] == 0xff && d[1]&0xf6 == 0xf0 }},
	{"M4A", func(d []byte) bool { return len(d) >= 8 && string(d[4:8]) == "ftyp" }}, {"WebM", begins("\x1aE\xdf\xa3")},
	{"AIFF", begins("FORM")}, {"AU", begins(".snd")}, {"WMA", begins("0&\xb2u")}, {"MIDI", begins("MThd")}, {"AMR", begins("#!AMR")},
}

// Formats are those that are decoded.
const Formats = "WAV, MP3 and FLAC"

// Format returns the name of a file's format by its first bytes, empty where it is unknown, and whether it is decoded.
func Format(data []byte) (name string, decoded bool) {
	for _, f := range formats {
		if f.is(data) {
			return f.name, true
		}
	}
	for _, o := range others {
		if o.is(data) {
			return o.name, false
		}
	}
	return "", false
}

func begins(with string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(with)) }
}

// isOgg recognizes a stream in Ogg pages by how the first page's packet begins.
func isOgg(with string) func([]byte) bool {
	return func(data []byte) bool {
		const head = 27
		return begins("OggS")(data) && len(data) > head && bytes.HasPrefix(data[min(head+int(data[head-1]), len(data)):], []byte(with))
	}
}

// isMP3 recognizes a tag in front, or a header of a frame of layer III.
func isMP3(data []byte) bool {
	return begins("ID3")(data) || len(data) > 3 && data[0] == 0xff && data[1]&0xe6 == 0xe2 && data[2] < 0xf0
}

// Decode returns the sound in data.
func Decode(ctx context.Context, data []byte, l Limits) (*Mono, error) {
	for _, f := range formats {
		if !f.is(data) {
			continue
		}
		c := &collector{ctx: ctx, limits: l}
		defer c.release()
		err := panics.Catch(func() error { return f.decode(data, c) }) // decoders are others' work
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case c.err != nil:
			return nil, fmt.Errorf("a %s: %w", f.name, c.err)
		case err != nil:
			return nil, fmt.Errorf("%w: a damaged %s: %s", ErrFormat, f.name, inWords(err))
		case len(c.samples) == 0:
			return nil, fmt.Errorf("%w: a %s without samples", ErrFormat, f.name)
		}
		return &Mono{c.rate, c.samples}, nil
	}
	for _, o := range others {
		if o.is(data) {
			return nil, fmt.Errorf("%w: %s is not supported; %s are", ErrFormat, o.name, Formats)
		}
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	return nil, fmt.Errorf("%w: it is none of %s", ErrFormat, Formats)
}

func inWords(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it is cut off"
	}
	what := err.Error()
	for _, prefix := range []string{"mp3: ", "flac: ", "frame: "} {
		what = strings.TrimPrefix(what, prefix)
	}
	line, _, _ := strings.Cut(what, "\n")
	return line
}

// A collector gathers samples, whose channels it mixes.
type collector struct {
	ctx     context.Context
	limits  Limits
	rate    int
	most    int // samples
	samples []float32
	held    []func()
	err     error // why no more is taken
}

// begin says what follows.
func (c *collector) begin(rate, channels int) error {
	if rate < MinRate || rate > MaxRate {
		return fmt.Errorf("%d samples a second; from %d to %d are taken", rate, MinRate, MaxRate)
	}
	if channels < 1 || channels > maxChannels {
		return fmt.Errorf("%d channels; from 1 to %d are taken", channels, maxChannels)
	}
	length := c.limits.Length
	if length == 0 {
		length = MaxLength
	}
	c.rate, c.most = rate, int(length.Seconds()*float64(rate))
	return nil
}

// room returns space for n more samples, which the caller writes.
func (c *collector) room(n int) ([]float32, error) {
	if c.err = c.ctx.Err(); c.err != nil {
		return nil, c.err
	}
	if len(c.samples)+n > c.most {
		c.err = fmt.Errorf("%w: more than the maximum of %v", ErrLength, time.Duration(c.most)*time.Second/time.Duration(c.rate))
		return nil, c.err
	}
	if need := len(c.samples) + n; need > cap(c.samples) {
		to := min(max(2*cap(c.samples), need, 1<<16), c.most)
		if c.limits.Reserve != nil {
			free, err := c.limits.Reserve(4 * uint64(to))
			if err != nil {
				c.err = err
				return nil, err
			}
			c.held = append(c.held, free)
		}
		c.samples = append(make([]float32, 0, to), c.samples...)
	}
	c.samples = c.samples[:len(c.samples)+n]
	return c.samples[len(c.samples)-n:], nil
}

func (c *collector) release() {
	for _, free := range c.held {
		free()
	}
}

// mix appends samples of interleaved channels.
func (c *collector) mix(n, channels int, at func(i int) float64) error {
	dst, err := c.room(n)
	if err != nil {
		return err
	}
	for i := range dst {
		var sum float64
		for j := range channels {
			sum += at(i*channels + j)
		}
		dst[i] = float32(sum / float64(channels))
	}
	return nil
}

func decodeFLAC(data []byte, c *collector) error {
	s, err := flac.New(bytes.NewReader(data))
	if err != nil {
		return err
	}
	channels := int(s.Info.NChannels)
	if err := c.begin(int(s.Info.SampleRate), channels); err != nil {
		return err
	}
	if bits := s.Info.BitsPerSample; bits < 4 || bits > 32 {
		return fmt.Errorf("samples of %d bits", bits)
	}
	scale := 1 / float64(int64(1)<<(s.Info.BitsPerSample-1))
	for {
		f, err := s.ParseNext()
		if err == io.EOF {
			if n := s.Info.NSamples; n > uint64(len(c.samples)) {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		if err != nil {
			return err
		}
		if len(f.Subframes) != channels {
			return fmt.Errorf("a frame of %d channels among those of %d", len(f.Subframes), channels)
		}
		n := len(f.Subframes[0].Samples)
		for _, sub := range f.Subframes {
			if len(sub.Samples) != n {
				return errors.New("channels of different lengths")
			}
		}
		err = c.mix(n, channels, func(i int) float64 { return float64(f.Subframes[i%channels].Samples[i/channels]) * scale })
		if err != nil {
			return err
		}
	}
}

// decodeMP3 reads frames, which come as two channels of 16 bits.
func decodeMP3(data []byte, c *collector) error {
	d, err := mp3.NewDecoder(bytes.NewReader(data))
	if err != nil {
		return err
	}
	const channels, size = 2, 4
	if err := c.begin(d.SampleRate(), channels); err != nil {
		return err
	}
	buf := make([]byte, 1<<14)
	for {
		n, err := io.ReadFull(d, buf)
		mixed := c.mix(n/size, channels, func(i int) float64 {
			return float64(int16(binary.LittleEndian.Uint16(buf[2*i:]))) / (1 << 15)
		})
		if mixed != nil {
			return mixed
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
