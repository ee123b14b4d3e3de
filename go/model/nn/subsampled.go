package nn

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// A Subsampling is convolutions over a spectrum as over a picture, of 3 x 3 taps and steps of two in both directions, which
// encoders that are conformers begin with (Gulati et al. 2020). A token is a time of the last one's results. It brings all
// that these are made of, so that tokens need no results of others: those of the convolution before at three times, of the one
// before that at seven.
type Subsampling struct {
	Levels int // convolutions: 2 or 3
	Bands  int // of the spectrum
}

// Of returns a size of a spectrum, such as its bands, and what it is of the results of each convolution.
func (s Subsampling) Of(n int) []int {
	all := []int{n}
	for range s.Levels {
		n = (n + 1) / 2
		all = append(all, n)
	}
	return all
}

// Times returns how many tokens there are, of a spectrum of so many frames.
func (s Subsampling) Times(frames int) int { return s.Of(frames)[s.Levels] }

// span returns at how many times results of a convolution are needed for a token, and the first of these for token t.
func (s Subsampling) span(level, t int) (n, first int) {
	step := 1 << (s.Levels - level)
	return 2*step - 1, step*t - (step - 1)
}

// places returns how many results of a convolution there are at a time: of the bands, and of what is beside them.
func (s Subsampling) places(level int) int { return s.Of(s.Bands)[level] + 2 }

// at returns where the result at a place and a time is among those of a convolution: times are side by side where all channels
// are read, and where one is, every other place is.
func (s Subsampling) at(level, time, place int) int {
	if n, _ := s.span(level, 0); s.Levels == 2 {
		return place*n + time
	}
	half := (s.places(level) + 1) / 2
	return time*2*half + place%2*half + place/2
}

// size returns how many numbers at returns.
func (s Subsampling) size(level int) int {
	n, _ := s.span(level, 0)
	return s.at(level, n-1, s.places(level)-1) + 1
}

// flags returns the column from which on a token brings whether there are results of a convolution.
func (s Subsampling) flags(level int) int {
	n, _ := s.span(1, 0)
	at := n * s.places(1) * kernel.Panel
	for l := 1; l < level; l++ {
		at += kernel.Pad(s.size(l))
	}
	return at
}

// Columns returns how many columns a token brings.
func (s Subsampling) Columns() int { return s.flags(s.Levels) }

// Fill writes what token t of a spectrum of so many frames brings. at returns a number of the spectrum.
func (s Subsampling) Fill(dst []float32, t, frames int, at func(frame, band int) float32) {
	clear(dst[:s.Columns()])
	bands, times := s.Of(s.Bands), s.Of(frames)
	for level := 1; level < s.Levels; level++ {
		n, first := s.span(level, t)
		for i := range n {
			time := first + i
			if time < 0 || time >= times[level] {
				continue
			}
			for band := range bands[level] {
				dst[s.flags(level)+s.at(level, i, band+1)] = 1
				if level > 1 {
					continue
				}
				place := i*s.places(1) + band + 1
				for tap := range allTaps {
					f, b := 2*time-1+tap/planeTaps, 2*band-1+tap%planeTaps
					if f >= 0 && f < frames && b >= 0 && b < s.Bands {
						dst[place*kernel.Panel+tap] = at(f, b)
					}
				}
			}
		}
	}
}

// channels returns how many a convolution has.
func (b *Builder) channels(name string) int {
	n := b.weights.Rows(name + ".weight")
	if n < 1 || n > MaxFF {
		check(fmt.Errorf("tensor %q: missing, or not of 1 to %d channels", name+".weight", MaxFF))
	}
	return n
}

// firstPlane computes the results of the first convolution in a buffer.
func (b *Builder) firstPlane(s Subsampling, dst kernel.Buf, part kernel.Part, apply kernel.Matmul) {
	n, _ := s.span(1, 0)
	places := s.places(1)
	brought := b.Floats("spectrum", kernel.TokRows, places*kernel.Panel)
	act := b.Act("spectrum", kernel.TokRows, kernel.Panel, part.Matrix)
	for time := range n {
		b.Add(kernel.Input{Dst: brought, From: time * places * kernel.Panel, Cols: places * kernel.Panel, Clear: true})
		for place := range places {
			op := apply
			op.Dst, op.Act, op.Parts = dst, act, []kernel.Part{part}
			op.Parts[0].Col = s.at(1, time, place) * part.Matrix.Out
			b.Add(kernel.ToAct{Act: act, Src: brought, SrcCol: place * kernel.Panel, Cols: kernel.Panel})
			b.Add(op)
		}
	}
}

// exist has results of a convolution that there are not be zeros.
func (b *Builder) exist(s Subsampling, level int, dst kernel.Buf, wide int) {
	flags := b.Floats("flags", kernel.TokRows, s.size(level))
	b.Add(kernel.Input{Dst: flags, From: s.flags(level), Cols: s.size(level), Clear: true})
	b.Add(kernel.Gate{Dst: dst, Src: flags, Cols: wide, Segs: s.size(level), Fn: kernel.NoFn})
}

// Subsampled is x = a product with the results of two convolutions, each with a norm of its channels and ReLU behind it
// (Gemma 4, 2026). in is the name of the product.
func (b *Builder) Subsampled(s Subsampling, eps float32, in string) {
	const conv = "a.conv1d.%d"
	names := [2]string{fmt.Sprintf(conv, 0), fmt.Sprintf(conv, 1)}
	n := [2]int{b.channels(names[0]), b.channels(names[1])}
	wide := [2]int{kernel.Pad(n[0]), kernel.Pad(n[1])}
	one := kernel.Part{Matrix: b.byTaps(names[0]+".weight", 1, allTaps, n[0]), Bias: b.optional(names[0]+".bias", n[0])}
	two := kernel.Part{
		Matrix: must(b.weights.Taps(names[1]+".weight", TurnedTaps, allTaps, n[0], n[1])), Bias: b.optional(names[1]+".bias", n[1]),
	}
	bands, places := s.Of(s.Bands), s.places(1)
	ones := b.Floats("first plane", kernel.TokRows, places*planeTaps*wide[0])
	twos := b.Floats("second plane", kernel.TokRows, bands[2]*wide[1])
	positive := func(dst kernel.Buf, i, n, wide int, name string) {
		op := kernel.NormRows{
			Dst: dst, Src: dst, DstCol: i * wide, SrcCol: i * wide, Cols: n, Segs: 1, Kind: kernel.NoNorm, Eps: eps, Scale: 1,
			High: math.MaxFloat32,
		}
		if b.Has(name + ".norm.weight") {
			op.Kind, op.Weight = kernel.LayerNorm, b.Vector(name+".norm.weight", n)
		}
		b.Add(op)
	}
	b.firstPlane(s, ones, one, kernel.Matmul{})
	for i := range places * planeTaps {
		positive(ones, i, n[0], wide[0], names[0])
	}
	b.exist(s, 1, ones, wide[0])
	act := b.Act("first plane", kernel.TokRows, allTaps*wide[0], two.Matrix)
	for band := range bands[2] {
		two.Col = band * wide[1]
		b.Add(kernel.ToAct{Act: act, Src: ones, SrcCol: 2 * band * planeTaps * wide[0], Cols: allTaps * wide[0]})
		b.Add(kernel.Matmul{Dst: twos, Act: act, Parts: []kernel.Part{two}})
		positive(twos, band, n[1], wide[1], names[1])
	}
	out := must(b.weights.Taps(in+".weight", ChannelsOfTaps, bands[2], n[1], b.Config.NEmbd))
	act = b.Act("second plane", kernel.TokRows, bands[2]*wide[1], out)
	b.Add(kernel.ToAct{Act: act, Src: twos, Cols: bands[2] * wide[1]})
	b.Add(kernel.Matmul{Dst: b.X(), Act: act, Parts: []kernel.Part{{Matrix: out, Bias: b.optional(in+".bias", b.Config.NEmbd)}}})
}

// Thinned is x = a product with the results of three convolutions with ReLU behind them, of which the second and the third are
// of each channel alone, and followed by a product of the channels (Rekesh et al. 2023, "Fast Conformer").
func (b *Builder) Thinned(s Subsampling) {
	const conv = "a.conv1d.%d"
	name := func(i int) string { return fmt.Sprintf(conv, i) }
	n := b.channels(name(0))
	wide := kernel.Pad(n)
	bands := s.Of(s.Bands)
	relu := kernel.Matmul{Epilogue: kernel.Apply, Fn: kernel.ReLU}
	plane := func(level int) kernel.Buf {
		return b.Floats(fmt.Sprintf("plane %d", level), kernel.TokRows, s.size(level)*wide)
	}
	b.firstPlane(s, plane(1), kernel.Part{Matrix: b.byTaps(name(0)+".weight", 1, allTaps, n), Bias: b.Vector(name(0)+".bias", n)}, relu)
	b.exist(s, 1, plane(1), wide)
	alone, last := b.Floats("of a channel", kernel.TokRows, (bands[2]+1)*wide), b.Floats("last plane", kernel.TokRows, bands[3]*wide)
	for level, i := range []int{0, 0, 2, 5} {
		if i == 0 {
			continue
		}
		product := kernel.Part{Matrix: b.byTaps(name(i+1)+".weight", 1, n, n), Bias: b.Vector(name(i+1)+".bias", n)}
		act := b.Act("channels", kernel.TokRows, wide, product.Matrix)
		times, _ := s.span(level, 0)
		for time := range times {
			b.eachChannel(s, level-1, time, plane(level-1), alone, name(i), n)
			for place := range s.places(level) {
				op, band := relu, min(max(place-1, 0), bands[level]-1)
				op.Dst, op.Act, op.Parts = last, act, []kernel.Part{product}
				if op.Parts[0].Col = band * wide; level < s.Levels {
					op.Dst, op.Parts[0].Col = plane(level), s.at(level, time, place)*wide
				} else if band != place-1 {
					continue
				}
				b.Add(kernel.ToAct{Act: act, Src: alone, SrcCol: band * wide, Cols: wide})
				b.Add(op)
			}
		}
		if level < s.Levels {
			b.exist(s, level, plane(level), wide)
		}
	}
	out := b.byTaps("a.pre_encode.out.weight", bands[3], n, b.Config.NEmbd)
	act := b.Act("last plane", kernel.TokRows, bands[3]*wide, out)
	b.Add(kernel.ToAct{Act: act, Src: last, Cols: bands[3] * wide})
	b.Add(kernel.Matmul{
		Dst: b.X(), Act: act, Parts: []kernel.Part{{Matrix: out, Bias: b.optional("a.pre_encode.out.bias", b.Config.NEmbd)}},
	})
}

// eachChannel computes the results of a convolution of each channel alone at a time, of those of the convolution `of`.
func (b *Builder) eachChannel(s Subsampling, of, time int, src, dst kernel.Buf, name string, n int) {
	wide := kernel.Pad(n)
	w, bias := b.Vector(name+".weight", planeTaps, planeTaps, n), b.Vector(name+".bias", n)
	for tap := range allTaps {
		op := kernel.NormRows{
			Dst: dst, Src: src, SrcCol: s.at(of, 2*time+tap/planeTaps, tap%planeTaps) * wide, Cols: wide, Segs: s.Of(s.Bands)[of+1],
			Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
			Weight: b.constants(fmt.Sprintf("%s, tap %d", name, tap), wide, func(i int) float64 {
				if i >= n {
					return 0
				}
				return float64(w[i*allTaps+tap])
			}),
		}
		if tap == 0 {
			op.Epilogue, op.Bias = kernel.Store, bias
		}
		b.Add(op)
	}
}
