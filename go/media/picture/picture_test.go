package picture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// A reference is what Pillow makes of a file.
type reference struct {
	File, Format, Mode, Raw string
	Orientation             int
	Size                    [2]int
	SHA                     string `json:"rgb_sha256"`
	Stored                  string `json:"rgb_sha256_as_stored"`
}

func references(t *testing.T) []reference {
	t.Helper()
	text, err := os.ReadFile(testdata.Path(t, "mmproj/pictures.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Pictures []reference }
	if err := json.Unmarshal(text, &list); err != nil || len(list.Pictures) < 20 {
		t.Fatal(len(list.Pictures), err)
	}
	return list.Pictures
}

// pixels returns Pillow's pixels, from a file of bytes or a lossless picture.
func pixels(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(path) == ".rgb" {
		return data
	}
	p, err := Decode(t.Context(), data, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Pix
}

func TestPillow(t *testing.T) {
	for _, ref := range references(t) {
		data, err := os.ReadFile(testdata.Path(t, "mmproj/"+ref.File))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Decode(t.Context(), data, Limits{})
		if err != nil {
			t.Errorf("%s: %v", ref.File, err)
			continue
		}
		if [2]int{p.Width, p.Height} != ref.Size || len(p.Pix) != 3*p.Width*p.Height {
			t.Errorf("%s: %d x %d, %d bytes, want %v", ref.File, p.Width, p.Height, len(p.Pix), ref.Size)
			continue
		}
		sum := sha256.Sum256(p.Pix)
		if hex.EncodeToString(sum[:]) == ref.SHA {
			continue
		}
		if ref.Raw == "" {
			t.Errorf("%s: other pixels", ref.File)
			continue
		}
		want := pixels(t, testdata.Path(t, "mmproj/"+ref.Raw))
		differ, most := 0, 0
		for i, v := range p.Pix {
			if d := max(int(v)-int(want[i]), int(want[i])-int(v)); d > 0 {
				differ, most = differ+1, max(most, d)
			}
		}
		share := float64(differ) / float64(len(want))
		t.Logf("%s: %.2f %% of samples differ, by at most %d", ref.File, 100*share, most)
		if lossy := ref.Format == "JPEG" || strings.HasPrefix(filepath.Base(ref.File), "lossy"); !lossy || share > 0.05 || most > 3 {
			t.Errorf("%s: %d of %d samples differ, by at most %d", ref.File, differ, len(want), most)
		}
	}
}

// pngOf returns a PNG without pixels that says it has this size.
func pngOf(w, h uint32) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	data := b.Bytes()
	for i, v := range []uint32{w, h} {
		data[16+4*i], data[17+4*i], data[18+4*i], data[19+4*i] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	}
	sum := crc32.ChecksumIEEE(data[12:29])
	data[29], data[30], data[31], data[32] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
	return data
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(testdata.Path(t, "mmproj/media/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRefused(t *testing.T) {
	jpg := read(t, "exif-1.jpg")
	scan := jpg[bytes.Index(jpg, []byte("\xff\xda")):]
	for name, c := range map[string]struct {
		data []byte
		kind error
		want string
	}{
		"nothing":          {nil, ErrFormat, "it is empty"},
		"text":             {[]byte("hello"), ErrFormat, "it is none of PNG, JPEG, GIF, WebP and BMP"},
		"another format":   {[]byte("\x00\x00\x00\x20ftypavif\x00\x00"), ErrFormat, "AVIF is not supported; PNG, JPEG, GIF, WebP and BMP are"},
		"a photo of Apple": {[]byte("\x00\x00\x00\x20ftypheic\x00\x00"), ErrFormat, "HEIC is not supported"},
		"a page":           {[]byte("%PDF-1.7"), ErrFormat, "PDF is not supported"},
		"a drawing":        {[]byte("<?xml version='1.0'?><svg/>"), ErrFormat, "SVG is not supported"},
		"cut":              {read(t, "drawing-1024x1024.png")[:20000], ErrFormat, "a damaged PNG: not enough pixel data"},
		"cut in a header":  {jpg[:20], ErrFormat, "a damaged JPEG: it is cut off"},
		"a damaged one":    {append([]byte("BM"), make([]byte, 60)...), ErrFormat, "a damaged BMP: unsupported"},
		"no pixels":        {pngOf(0, 10), ErrFormat, "PNG"},
		"a lie":            {pngOf(8000, 8000), ErrFormat, "a damaged PNG"},
		"large":            {pngOf(100000, 1000), ErrSize, "a PNG of 100000 x 1000 pixels; the maximum is 67108864 in all"},
		"enormous":         {pngOf(math.MaxInt32, math.MaxInt32), ErrFormat, "a damaged PNG: unsupported feature: dimension overflow"},
		"many scans":       {slices.Concat(jpg[:len(jpg)-2], bytes.Repeat(scan[:len(scan)-2], 100)), ErrSize, "a JPEG of 101 scans; the maximum is 100"},
	} {
		p, err := Decode(t.Context(), c.data, Limits{})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; want %q", name, p != nil, err, c.want)
		}
	}
}

// Memory is asked for before it is taken, and given back.
func TestReserve(t *testing.T) {
	var asked, held uint64
	full := errors.New("no memory")
	l := Limits{Reserve: func(n uint64) (func(), error) {
		asked, held = n, n
		return func() { held -= n }, nil
	}}
	if _, err := Decode(t.Context(), read(t, "small-224x160.png"), l); err != nil || asked != 224*160*14 || held != 0 {
		t.Errorf("%v, %d bytes, %d not given back", err, asked, held)
	}
	if _, err := Decode(t.Context(), read(t, "progressive-321x243.jpg"), l); err != nil || asked != 321*243*24 || held != 0 {
		t.Errorf("%v, %d bytes, %d not given back", err, asked, held)
	}
	l.Reserve = func(uint64) (func(), error) { return nil, full }
	if _, err := Decode(t.Context(), pngOf(8000, 8000), l); !errors.Is(err, full) || err.Error() != "a PNG of 8000 x 8000 pixels: no memory" {
		t.Error(err)
	}
	if _, err := Decode(t.Context(), read(t, "small-224x160.png"), Limits{Pixels: 224*160 - 1}); !errors.Is(err, ErrSize) {
		t.Error(err)
	}
	if _, err := Decode(t.Context(), read(t, "small-224x160.png"), Limits{Pixels: 224 * 160}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Decode(ctx, read(t, "small-224x160.png"), Limits{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// numbered returns a picture in which each pixel has another colour.
func numbered(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		copy(m.Pix[4*i:], []byte{byte(i), byte(i >> 8), 7, byte(255 - i%3)})
	}
	return m
}

// Exif turns a picture in PNG and WebP as it does in JPEG, with numbers of either order.
func TestOrientation(t *testing.T) {
	tiff := func(big bool, value byte) []byte {
		if big {
			return []byte{'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, value, 0, 0}
		}
		return []byte{'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, value, 0, 0, 0}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, numbered(3, 2)); err != nil {
		t.Fatal(err)
	}
	head, rest := b.Bytes()[:33], b.Bytes()[33:]
	with := func(body []byte) []byte {
		chunk := slices.Concat([]byte{0, 0, 0, byte(len(body))}, []byte("eXIf"), body)
		sum := crc32.ChecksumIEEE(chunk[4:])
		return slices.Concat(head, chunk, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, rest)
	}
	for o, want := range [][]byte{1: {0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0}, {3, 4, 5, 0, 1, 2},
		{0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2}, {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}} {
		for _, big := range []bool{false, true} {
			p, err := Decode(t.Context(), with(tiff(big, byte(o))), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if o == 0 {
				want = []byte{0, 1, 2, 3, 4, 5}
			}
			got := make([]byte, 0, 6)
			for i := 0; i < len(p.Pix); i += 3 {
				got = append(got, p.Pix[i])
			}
			if wide := o < 5; !bytes.Equal(got, want) || (p.Width == 3) != wide || (p.Height == 2) != wide {
				t.Errorf("%d: %d x %d, %v, want %v", o, p.Width, p.Height, got, want)
			}
		}
	}
	webp := read(t, "lossless-160x120.webp")
	for _, start := range []string{"", "Exif\x00\x00"} {
		body := append([]byte(start), tiff(true, 6)...)
		p, err := Decode(t.Context(), slices.Concat(webp, []byte("EXIF"), []byte{byte(len(body)), 0, 0, 0}, body), Limits{})
		if err != nil || p.Width != 120 || p.Height != 160 {
			t.Errorf("WebP: %+v, %v", p, err)
		}
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "another order": []byte("XX*\x00\x00\x00\x00\x08"), "cut": tiff(true, 6)[:7], "no entry": tiff(true, 6)[:12],
		"of 9": tiff(true, 9), "behind the end": []byte("MM\x00*\xff\xff\xff\xff"),
	} {
		if p, err := Decode(t.Context(), with(bad), Limits{}); err != nil || p.Width != 3 || p.Pix[0] != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A GIF whose first frame is smaller than the screen keeps its place in it.
func TestFrames(t *testing.T) {
	frame := image.NewPaletted(image.Rect(2, 1, 4, 2), color.Palette{color.NRGBA{9, 9, 9, 255}, color.NRGBA{200, 100, 50, 255}})
	frame.Pix = []byte{1, 1}
	var b bytes.Buffer
	err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame}, Delay: []int{0}, Config: image.Config{Width: 5, Height: 3}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode(t.Context(), b.Bytes(), Limits{})
	if err != nil || p.Width != 5 || p.Height != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	for i := range 15 {
		want := []byte{9, 9, 9}
		if i == 7 || i == 8 {
			want = []byte{200, 100, 50}
		}
		if !bytes.Equal(p.Pix[3*i:][:3], want) {
			t.Errorf("pixel %d: %v", i, p.Pix[3*i:][:3])
		}
	}
}

// Frames take memory whatever their size.
func TestManyFrames(t *testing.T) {
	for _, c := range []struct {
		frames int
		refuse uint64
		want   error
	}{{maxAnimation, 0, nil}, {maxAnimation + 1, 0, ErrSize}, {100, 100 * frameBytes, errFull}} {
		g := &gif.GIF{}
		for range c.frames {
			g.Image = append(g.Image, image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.Black, color.White}))
			g.Delay = append(g.Delay, 1)
		}
		var b bytes.Buffer
		if err := gif.EncodeAll(&b, g); err != nil {
			t.Fatal(err)
		}
		all, err := Animation(t.Context(), b.Bytes(), Limits{Reserve: func(n uint64) (func(), error) {
			if c.refuse > 0 && n >= c.refuse {
				return nil, errFull
			}
			return func() {}, nil
		}})
		if !errors.Is(err, c.want) || err == nil && len(all) != c.frames {
			t.Errorf("%d frames: %d, %v, want %v", c.frames, len(all), err, c.want)
		}
	}
}

var errFull = errors.New("no room")

// Frames of an animation are drawn over what is left of those before them.
func TestAnimation(t *testing.T) {
	red, blue := color.NRGBA{200, 0, 0, 255}, color.NRGBA{0, 0, 200, 255}
	frame := func(r image.Rectangle, pix ...byte) *image.Paletted {
		p := image.NewPaletted(r, color.Palette{color.NRGBA{}, red, blue})
		p.Pix = pix
		return p
	}
	whole, left, right := image.Rect(0, 0, 2, 1), image.Rect(0, 0, 1, 1), image.Rect(1, 0, 2, 1)
	var b bytes.Buffer
	err := gif.EncodeAll(&b, &gif.GIF{
		Image:    []*image.Paletted{frame(whole, 1, 1), frame(right, 2), frame(whole, 0, 1), frame(left, 2), frame(right, 0)},
		Delay:    []int{0, 50, 7, 1, 100},
		Disposal: []byte{gif.DisposalNone, gif.DisposalPrevious, gif.DisposalNone, gif.DisposalBackground, 0},
		Config:   image.Config{Width: 2, Height: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	frames, err := Animation(t.Context(), b.Bytes(), Limits{Reserve: func(n uint64) (func(), error) {
		if n != 2*28+5*frameBytes {
			t.Errorf("%d bytes are reserved", n)
		}
		return func() {}, nil
	}})
	if err != nil || len(frames) != 5 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	for i, want := range []struct {
		pix []byte
		ms  int
	}{
		{[]byte{200, 0, 0, 200, 0, 0}, 100}, {[]byte{200, 0, 0, 0, 0, 200}, 500}, {[]byte{200, 0, 0, 200, 0, 0}, 70},
		{[]byte{0, 0, 200, 200, 0, 0}, 100}, {[]byte{0, 0, 0, 200, 0, 0}, 1000},
	} {
		if got := frames[i]; !bytes.Equal(got.Pix, want.pix) || int(got.For.Milliseconds()) != want.ms {
			t.Errorf("frame %d: %v for %v", i, got.Pix, got.For)
		}
	}
	if _, err := Animation(t.Context(), b.Bytes(), Limits{Pixels: 9}); !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), "5 frames of 2 x 1 pixels") {
		t.Errorf("ten pixels: %v", err)
	}
	for name, data := range map[string][]byte{"cut": b.Bytes()[:len(b.Bytes())-9], "a PNG": pngOf(3, 3), "empty": {}, "a header": b.Bytes()[:13]} {
		if _, err := Animation(t.Context(), data, Limits{}); !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzAnimation(f *testing.F) {
	small := image.NewPaletted(image.Rect(0, 0, 2, 1), color.Palette{color.NRGBA{}, color.NRGBA{200, 0, 0, 255}})
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{small, small}, Delay: []int{5, 0}, Disposal: []byte{3, 2}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes()) // a long one is minimised without end
	f.Fuzz(func(t *testing.T, data []byte) {
		frames, err := Animation(t.Context(), data, Limits{Pixels: 1 << 16})
		n := 0
		for _, p := range frames {
			n += p.Width * p.Height
			if p.For <= 0 || len(p.Pix) != 3*p.Width*p.Height {
				t.Errorf("%d x %d, %d bytes, %v", p.Width, p.Height, len(p.Pix), p.For)
			}
		}
		if err == nil && (n == 0 || n > 1<<16) {
			t.Errorf("%d pixels", n)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"tiny-13x7.png", "exif-6.jpg", "lossless-160x120.webp", "lossy-160x120.webp", "dot-1x1.png"} {
		f.Add(read(f, name))
	}
	f.Add(pngOf(3, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(t.Context(), data, Limits{Pixels: 1 << 16})
		if err == nil && (p.Width < 1 || p.Height < 1 || len(p.Pix) != 3*p.Width*p.Height || p.Width*p.Height > 1<<16) {
			t.Errorf("%d x %d, %d bytes", p.Width, p.Height, len(p.Pix))
		}
	})
}
