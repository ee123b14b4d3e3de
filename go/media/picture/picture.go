// Package picture decodes pictures of files and requests: PNG, JPEG, GIF, WebP and BMP, as Pillow has them, with which
// models were trained. Sizes are checked, and memory is asked for, before a pixel is decoded.
package picture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"

	"github.com/quern-llm/quern/go/internal/panics"
)

// An RGB is a picture: rows from the top, each of Width pixels of three bytes.
type RGB struct {
	Width, Height int
	Pix           []byte
}

// Limits bound what a picture may take.
type Limits struct {
	Pixels  int                                         // maximum width times height; 0: MaxPixels
	Reserve func(bytes uint64) (free func(), err error) // asks for memory while a picture is decoded; nil: none is counted
}

// MaxPixels is the default of Limits.Pixels.
const MaxPixels = 64 << 20

// maxScans is the maximum number of scans of a progressive JPEG. Each visits all pixels, and may take a few bytes of file;
// encoders write about ten.
const maxScans = 100

var (
	// ErrFormat is the kind of error for a picture that cannot be decoded: damaged, or of an unknown format.
	ErrFormat = errors.New("not a picture that can be read")
	// ErrSize is the kind of error for a picture that is too large.
	ErrSize = errors.New("picture too large")
)

// A format is one kind of file.
type format struct {
	name    string
	is      func(data []byte) bool
	config  func(io.Reader) (image.Config, error)
	decode  func(io.Reader) (image.Image, error)
	limited bool // its chroma planes have the range of video, 16 to 235, and libwebp's upsampling
}

var formats = []format{
	{"PNG", begins("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode, false},
	{"JPEG", begins("\xff\xd8\xff"), jpeg.DecodeConfig, jpeg.Decode, false},
	{"GIF", begins("GIF8"), gif.DecodeConfig, gif.Decode, false},
	{"WebP", riff("WEBP"), webp.DecodeConfig, webp.Decode, true},
	{"BMP", begins("BM"), bmp.DecodeConfig, bmp.Decode, false},
}

// others are formats that are recognized, and not decoded.
var others = []struct {
	name string
	is   func(data []byte) bool
}{
	{"AVIF", brand("avi")}, {"HEIC", brand("hei", "hev", "mif1", "msf1")}, {"MP4", brand("")},
	{"TIFF", begins("II*\x00", "MM\x00*")}, {"JPEG XL", begins("\xff\x0a", "\x00\x00\x00\x0cJXL ")}, {"PDF", begins("%PDF")},
	{"SVG", func(data []byte) bool { return bytes.Contains(data[:min(len(data), 1<<10)], []byte("<svg")) }},
	{"JPEG 2000", begins("\x00\x00\x00\x0cjP  ")}, {"PSD", begins("8BPS")},
}

// Formats are those that are decoded.
const Formats = "PNG, JPEG, GIF, WebP and BMP"

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

func begins(with ...string) func([]byte) bool {
	return func(data []byte) bool {
		for _, w := range with {
			if bytes.HasPrefix(data, []byte(w)) {
				return true
			}
		}
		return false
	}
}

func riff(kind string) func([]byte) bool {
	return func(data []byte) bool {
		return len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == kind
	}
}

// brand recognizes a file in boxes of ISO 14496-12 by its major brand.
func brand(with ...string) func([]byte) bool {
	return func(data []byte) bool {
		if len(data) < 12 || string(data[4:8]) != "ftyp" {
			return false
		}
		for _, w := range with {
			if strings.HasPrefix(string(data[8:12]), w) {
				return true
			}
		}
		return false
	}
}

// Decode returns the picture in data, upright. Of an animation it is the first frame. Transparency is dropped, as Pillow's
// convert("RGB") does, and of 16 bits the higher 8 are kept.
func Decode(ctx context.Context, data []byte, l Limits) (*RGB, error) {
	f, err := find(data)
	if err != nil {
		return nil, err
	}
	var c image.Config
	err = panics.Catch(func() (err error) { // decoders are others' work
		c, err = f.config(bytes.NewReader(data))
		return err
	})
	if err != nil {
		return nil, damaged(f, err)
	}
	most := l.Pixels
	if most == 0 {
		most = MaxPixels
	}
	if c.Width < 1 || c.Height < 1 {
		return nil, fmt.Errorf("%w: a %s of %d x %d pixels", ErrFormat, f.name, c.Width, c.Height)
	}
	if c.Height > most/c.Width {
		return nil, fmt.Errorf("%w: a %s of %d x %d pixels; the maximum is %d in all", ErrSize, f.name, c.Width, c.Height, most)
	}
	scans := 1
	if f.name == "JPEG" {
		if scans = countScans(data); scans > maxScans {
			return nil, fmt.Errorf("%w: a JPEG of %d scans; the maximum is %d", ErrSize, scans, maxScans)
		}
	}
	if l.Reserve != nil {
		free, err := l.Reserve(uint64(c.Width) * uint64(c.Height) * uint64(cost(c.ColorModel, scans)))
		if err != nil {
			return nil, fmt.Errorf("a %s of %d x %d pixels: %w", f.name, c.Width, c.Height, err)
		}
		defer free()
	}
	var img image.Image
	err = panics.Catch(func() (err error) {
		img, err = f.decode(&untilDone{ctx, bytes.NewReader(data)})
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, damaged(f, err)
	}
	p, err := toRGB(img, c, f.limited)
	if err != nil {
		return nil, damaged(f, err)
	}
	return p.turned(orientation(f.name, data)), nil
}

// find returns the format of a file, by its first bytes.
func find(data []byte) (*format, error) {
	for i := range formats {
		if formats[i].is(data) {
			return &formats[i], nil
		}
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

func damaged(f *format, err error) error {
	what := err.Error()
	for _, prefix := range []string{"png: ", "gif: ", "webp: ", "bmp: ", "vp8l: ", "vp8: ", "invalid JPEG format: ", "invalid format: "} {
		what = strings.TrimPrefix(what, prefix)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		what = "it is cut off"
	}
	return fmt.Errorf("%w: a damaged %s: %s", ErrFormat, f.name, what)
}

// cost returns how many bytes are taken for each pixel while a picture is decoded: by the decoder twice, for
// passes and transforms, by coefficients of several scans, and by the result and a turned one.
func cost(m color.Model, scans int) int {
	n := 8
	switch m {
	case color.GrayModel:
		n = 1
	case color.Gray16Model:
		n = 2
	case color.YCbCrModel:
		n = 3
	case color.RGBAModel, color.NRGBAModel, color.CMYKModel, color.NYCbCrAModel:
		n = 4
	default:
		if _, ok := m.(color.Palette); ok {
			n = 1
		}
	}
	if scans > 1 {
		return 4*n + 2*n + 6
	}
	return 2*n + 6
}

// untilDone ends a read when a context is done.
type untilDone struct {
	ctx context.Context
	r   *bytes.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b[:min(len(b), 64<<10)])
}
