// Package prepare makes the input of encoders: pictures of the sizes that a model was trained with, cut into tiles and
// patches, and frames of sound. All of it is exact: integers, or sums in one order, so the same on each machine.
package prepare

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/media/picture"
)

// A Filter is a kernel of a resampling.
type Filter struct {
	support float64 // it is zero beyond
	weight  func(x float64) float64
}

// The filters that processors of pictures name.
var (
	Bilinear = Filter{1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }}
	Bicubic  = Filter{2, cubic}
	Lanczos  = Filter{3, lanczos}
)

// cubic is Keys' convolution kernel with a = -1/2 (IEEE Trans. ASSP 29, 1981). Each product is rounded, so that no machine
// fuses it with a sum.
func cubic(x float64) float64 {
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64((float64(1.5*x)-2.5)*x)*x) + 1
	case x < 2:
		return (float64((float64((x-5)*x)+8)*x) - 4) * -0.5
	}
	return 0
}

func lanczos(x float64) float64 {
	if x == 0 {
		return 1
	}
	if math.Abs(x) >= 3 {
		return 0
	}
	x *= math.Pi
	return exactmath.Sin(x) / x * (exactmath.Sin(x/3) / (x / 3))
}

// Weights are integers with so many bits behind the point, as Pillow has them.
const weightBits = 22

// A tap is what one sample is made of: samples from `from` on, by these weights.
type tap struct {
	from    int
	weights []int32
}

// taps returns how n samples become m.
func (f Filter) taps(n, m int) []tap {
	scale := float64(n) / float64(m)
	wide := max(scale, 1) // the kernel covers all samples that shrink into one
	support := float64(f.support * wide)
	list := make([]tap, m)
	all := make([]float64, 0, 2*int(math.Ceil(support))+2)
	for i := range list {
		center := float64((float64(i) + 0.5) * scale)
		from, to := max(int(center-support+0.5), 0), min(int(center+support+0.5), n)
		all = all[:0]
		var sum float64
		for j := from; j < to; j++ {
			w := f.weight((float64(j) - center + 0.5) * (1 / wide))
			all, sum = append(all, w), sum+w
		}
		t := tap{from, make([]int32, len(all))}
		for j, w := range all {
			w = float64(w / sum * (1 << weightBits))
			t.weights[j] = int32(w + math.Copysign(0.5, w)) // halves away from zero
		}
		list[i] = t
	}
	return list
}

// Resize returns the picture with w x h pixels, each at least 1, as Pillow's resize: rows first, then columns, with 8 bits
// in between.
func Resize(p *picture.RGB, w, h int, f Filter) *picture.RGB {
	if w != p.Width {
		q := blank(w, p.Height)
		for x, t := range f.taps(p.Width, w) {
			for y := range p.Height {
				sum(q.Pix[3*(y*w+x):], p.Pix[3*(y*p.Width+t.from):], 3, t.weights)
			}
		}
		p = q
	}
	if h != p.Height {
		q := blank(w, h)
		for y, t := range f.taps(p.Height, h) {
			for x := range w {
				sum(q.Pix[3*(y*w+x):], p.Pix[3*(t.from*w+x):], 3*w, t.weights)
			}
		}
		p = q
	}
	return p
}

// sum writes a pixel, of pixels that are a stride apart.
func sum(dst, src []byte, stride int, weights []int32) {
	r, g, b := int32(1<<(weightBits-1)), int32(1<<(weightBits-1)), int32(1<<(weightBits-1))
	for i, w := range weights {
		s := src[i*stride:][:3]
		r, g, b = r+w*int32(s[0]), g+w*int32(s[1]), b+w*int32(s[2])
	}
	for i, v := range [3]int32{r, g, b} {
		dst[i] = byte(min(max(v>>weightBits, 0), 255))
	}
}

func blank(w, h int) *picture.RGB {
	return &picture.RGB{Width: w, Height: h, Pix: make([]byte, 3*w*h)}
}

// Pad returns a picture of w x h pixels that has p in its middle, in its proportions and as large as fits, and a colour around.
func Pad(p *picture.RGB, w, h int, f Filter, colour [3]byte) *picture.RGB {
	if p.Width == w && p.Height == h {
		return p
	}
	// A float32 decides the size, as in the tools with which files are tested.
	scale := min(float32(w)/float32(p.Width), float32(h)/float32(p.Height))
	side := func(n, most int) int {
		return max(1, min(int(math.Ceil(float64(float32(float32(n)*scale)))), most))
	}
	in := Resize(p, side(p.Width, w), side(p.Height, h), f)
	return around(in, w, h, (w-in.Width)/2, (h-in.Height)/2, colour)
}

// Framed is Pad with sides that are rounded to the nearest, and halves to even numbers: Pillow's ImageOps.pad.
func Framed(p *picture.RGB, w, h int, f Filter, colour [3]byte) *picture.RGB {
	wide, high := w, h
	switch of := func(n, by, to int) int { return max(int(math.RoundToEven(float64(n)/float64(by)*float64(to))), 1) }; {
	case p.Width*h > w*p.Height:
		high = of(p.Height, p.Width, w)
	case p.Width*h < w*p.Height:
		wide = of(p.Width, p.Height, h)
	}
	half := func(n int) int { return int(math.RoundToEven(float64(n) / 2)) }
	return around(Resize(p, wide, high, f), w, h, half(w-wide), half(h-high), colour)
}

// around returns a picture of w x h pixels that has p at a place, and a colour around.
func around(p *picture.RGB, w, h, left, top int, colour [3]byte) *picture.RGB {
	if p.Width == w && p.Height == h {
		return p
	}
	q := blank(w, h)
	for i := 0; i < len(q.Pix); i += 3 {
		copy(q.Pix[i:], colour[:])
	}
	for y := range p.Height {
		copy(q.Pix[3*((top+y)*w+left):], p.Pix[3*y*p.Width:][:3*p.Width])
	}
	return q
}

// Corner returns a black picture of w x h pixels that has p in its upper left corner.
func Corner(p *picture.RGB, w, h int) *picture.RGB {
	q := blank(w, h)
	for row := range p.Height {
		copy(q.Pix[3*row*w:], p.Pix[3*row*p.Width:][:3*p.Width])
	}
	return q
}

// Crop returns the w x h pixels from x, y on, which the picture has.
func Crop(p *picture.RGB, x, y, w, h int) *picture.RGB {
	q := blank(w, h)
	for row := range h {
		copy(q.Pix[3*row*w:], p.Pix[3*((y+row)*p.Width+x):][:3*w])
	}
	return q
}
