package demo_test

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// What follows draws pictures for the model that names what is in them. It shares no line and no font with what drew those
// that it learned from.

// A point is one of an outline, about the origin; those of a thing reach from -1 to 1 on its longer side.
type point struct{ x, y float64 }

// An outline is loops, of which those that turn the other way are holes.
type outline [][]point

// A figure is a thing in a picture.
type figure struct{ name, colour string }

func (f figure) String() string {
	article := "a"
	if strings.ContainsRune("aeiou", rune(f.colour[0])) {
		article = "an"
	}
	kind := ""
	switch c := f.name[0]; {
	case len(f.name) > 1:
	case c <= '9':
		kind = "digit "
	default:
		kind = "letter "
	}
	return fmt.Sprintf("%s %s %s%s", article, f.colour, kind, f.name)
}

// colours has some of each name, as CSS has them.
var colours = map[string][]uint32{
	"red": {0xff0000, 0xdc143c, 0xcc1010}, "orange": {0xff8c00, 0xff9a10}, "yellow": {0xffff00, 0xffe020}, "green": {0x008000, 0x00cc22, 0x32cd32},
	"cyan": {0x00ffff, 0x00e0e0}, "blue": {0x0000ff, 0x1e60ff, 0x0000b0}, "purple": {0x800080, 0x8a2be2}, "pink": {0xffc0cb, 0xff69b4},
	"brown": {0x8b4513, 0x6b3a10}, "black": {0x000000}, "white": {0xffffff}, "grey": {0x808080, 0x696969},
}

// A pencil draws with a source of chance, and knows some fonts.
type pencil struct {
	*rand.Rand
	fonts []*sfnt.Font
}

func newPencil(t testing.TB, seed uint64) *pencil {
	p := &pencil{Rand: rand.New(rand.NewPCG(seed, 3))}
	for _, ttf := range [][]byte{goregular.TTF, gomedium.TTF, gobold.TTF} {
		f, err := sfnt.Parse(ttf)
		if err != nil {
			t.Fatal(err)
		}
		p.fonts = append(p.fonts, f)
	}
	return p
}

func (p *pencil) between(low, high float64) float64 { return low + (high-low)*p.Float64() }

func oneOf[T any](p *pencil, some []T) T { return some[p.IntN(len(some))] }

// around returns n points, at these distances in turn.
func around(n int, far ...float64) (loop []point) {
	for i := range n {
		sin, cos := math.Sincos(2*math.Pi*float64(i)/float64(n) - math.Pi/2)
		loop = append(loop, point{far[i%len(far)] * cos, far[i%len(far)] * sin})
	}
	return loop
}

func hole(loop []point) []point {
	out := slices.Clone(loop)
	slices.Reverse(out)
	return out
}

// crescent is a disc less another one that is moved by d and has the radius r.
func crescent(d, r float64) (loop []point) {
	x := (1 + d*d - r*r) / (2 * d) // where the circles meet
	a, b := math.Acos(x), math.Acos((x-d)/r)
	for i := range 80 {
		sin, cos := math.Sincos(a + (2*math.Pi-2*a)*float64(i)/79)
		loop = append(loop, point{cos, sin})
	}
	for i := range 80 {
		sin, cos := math.Sincos(2*math.Pi - b - (2*math.Pi-2*b)*float64(i)/79)
		loop = append(loop, point{d + r*cos, r * sin})
	}
	return loop
}

// shape returns a shape, and by how much it may be turned, in degrees.
func (p *pencil) shape(name string) (outline, float64) {
	one := func(loop []point, turn float64) (outline, float64) { return outline{loop}, turn }
	switch name {
	case "circle":
		return one(around(120, 1), 0)
	case "square":
		return one([]point{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}}, 8)
	case "triangle":
		return one(around(3, 1), 180)
	case "star":
		return one(around(10, 1, p.between(0.4, 0.5)), 36)
	case "diamond":
		return one([]point{{0, -1}, {0.7, 0}, {0, 1}, {-0.7, 0}}, 6)
	case "ring":
		return outline{around(120, 1), hole(around(120, p.between(0.55, 0.7)))}, 0
	case "moon":
		return one(crescent(0.45, 0.85), 180)
	case "cross":
		w := p.between(0.22, 0.33)
		return one([]point{{-w, -1}, {w, -1}, {w, -w}, {1, -w}, {1, w}, {w, w}, {w, 1}, {-w, 1}, {-w, w}, {-1, w}, {-1, -w}, {-w, -w}}, 6)
	case "arrow":
		return one([]point{{-1, -0.25}, {0.1, -0.25}, {0.1, -0.75}, {1, 0}, {0.1, 0.75}, {0.1, 0.25}, {-1, 0.25}}, 180)
	case "heart":
		var loop []point
		for i := range 100 {
			t := 2 * math.Pi * float64(i) / 100
			loop = append(loop, point{math.Pow(math.Sin(t), 3), -(13*math.Cos(t) - 5*math.Cos(2*t) - 2*math.Cos(3*t) - math.Cos(4*t)) / 16})
		}
		return one(loop, 12)
	}
	panic(name)
}

// glyph returns a character of a font.
func (p *pencil) glyph(t testing.TB, c rune) (o outline) {
	t.Helper()
	f, buf := oneOf(p, p.fonts), new(sfnt.Buffer)
	i, err := f.GlyphIndex(buf, c)
	if err != nil {
		t.Fatal(err)
	}
	segments, err := f.LoadGlyph(buf, i, fixed.I(1000), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(q fixed.Point26_6) point { return point{float64(q.X), float64(q.Y)} }
	for _, s := range segments {
		if s.Op == sfnt.SegmentOpMoveTo {
			o = append(o, []point{at(s.Args[0])})
			continue
		}
		loop := &o[len(o)-1]
		from := (*loop)[len(*loop)-1]
		for i := 1; i <= 8; i++ { // a line, or a curve with one point between: the fonts have no others
			u := float64(i) / 8
			a, b := at(s.Args[0]), at(s.Args[1])
			if s.Op == sfnt.SegmentOpLineTo {
				a, b = point{(from.x + a.x) / 2, (from.y + a.y) / 2}, a
			}
			mix := func(v, w, x float64) float64 { return (1-u)*(1-u)*v + 2*u*(1-u)*w + u*u*x }
			*loop = append(*loop, point{mix(from.x, a.x, b.x), mix(from.y, a.y, b.y)})
		}
	}
	return o
}

// extent returns the corners of the box around an outline.
func (o outline) extent() (low, high point) {
	low, high = point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, loop := range o {
		for _, q := range loop {
			low = point{min(low.x, q.x), min(low.y, q.y)}
			high = point{max(high.x, q.x), max(high.y, q.y)}
		}
	}
	return low, high
}

// turned returns the outline turned, about the origin.
func (o outline) turned(degrees float64) (out outline) {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	for _, loop := range o {
		var l []point
		for _, q := range loop {
			l = append(l, point{q.x*cos - q.y*sin, q.x*sin + q.y*cos})
		}
		out = append(out, l)
	}
	return out
}

// fill draws the outline so that its longer side has so many pixels, around a point.
func (o outline) fill(dst *image.RGBA, ink color.Color, x, y, size float64) {
	low, high := o.extent()
	scale := size / max(high.x-low.x, high.y-low.y)
	r := vector.NewRasterizer(dst.Rect.Dx(), dst.Rect.Dy())
	for _, loop := range o {
		for i, q := range loop {
			px, py := float32(x+(q.x-(low.x+high.x)/2)*scale), float32(y+(q.y-(low.y+high.y)/2)*scale)
			if i == 0 {
				r.MoveTo(px, py)
			} else {
				r.LineTo(px, py)
			}
		}
		r.ClosePath()
	}
	r.Draw(dst, dst.Rect, image.NewUniform(ink), image.Point{})
}

func rgb(c uint32) color.RGBA { return color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255} }

// ink returns a colour that differs from the ground, and its name.
func (p *pencil) ink(ground color.RGBA) (name string, c color.RGBA) {
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range colours {
			if !yield(n) {
				return
			}
		}
	})
	for {
		name = oneOf(p, names)
		c = rgb(oneOf(p, colours[name]))
		d := func(a, b uint8, w float64) float64 { x := (float64(a) - float64(b)) / 255; return w * x * x }
		if d(c.R, ground.R, 0.6)+d(c.G, ground.G, 1.2)+d(c.B, ground.B, 0.5) > 0.2 {
			return name, c
		}
	}
}

var names = append(strings.Fields("circle square triangle star heart diamond cross ring moon arrow"), strings.Split("0123456789ABCDEFGHIJKLMNPQRSTUVWXYZ", "")...)

// picture draws one or two things, and returns what is to be said of them.
func (p *pencil) picture(t testing.TB) (*image.RGBA, []figure, string) {
	t.Helper()
	w, h := p.between(100, 500), p.between(100, 500)
	w, h = max(w, 0.78*h), max(h, 0.78*w)
	ground := rgb(oneOf(p, []uint32{0xffffff, 0xffffff, 0x000000, 0xf5deb3, 0xadd8e6, 0x203040, 0xffff00, 0x006400, 0xe6e6fa, 0xffa07a}))
	dst := image.NewRGBA(image.Rect(0, 0, int(w), int(h)))
	draw.Draw(dst, dst.Rect, image.NewUniform(ground), image.Point{}, draw.Src)
	var figures []figure
	put := func(x, y, size float64) {
		colour, ink := p.ink(ground)
		f := figure{oneOf(p, names), colour}
		if p.IntN(3) == 0 {
			f.name = names[p.IntN(10)] // shapes are fewer
		}
		var o outline
		turn := 6.0
		if len(f.name) > 1 {
			o, turn = p.shape(f.name)
		} else {
			o = p.glyph(t, rune(f.name[0]))
		}
		o.turned(p.between(-turn, turn)).fill(dst, ink, x, y, size)
		figures = append(figures, f)
	}
	short := min(w, h)
	if p.IntN(2) == 0 {
		size := p.between(0.5, 0.88) * short
		put(w/2+p.between(-0.5, 0.5)*(w-size), h/2+p.between(-0.5, 0.5)*(h-size), size)
		s := figures[0].String()
		return dst, figures, strings.ToUpper(s[:1]) + s[1:] + "."
	}
	how, size := "to the left of", p.between(0.42, 0.47)*short
	shift := p.between(-0.1, 0.1) * short
	if w >= h {
		put(0.27*w, h/2+shift, size)
		put(0.73*w, h/2-shift, size)
	} else {
		how = "above"
		put(w/2+shift, 0.27*h, size)
		put(w/2-shift, 0.73*h, size)
	}
	s := fmt.Sprintf("%s %s %s.", figures[0], how, figures[1])
	return dst, figures, strings.ToUpper(s[:1]) + s[1:]
}
