package nn

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Planes are three convolutions over a spectrum as over a picture, of 3 x 3 taps and steps of two in both directions, which
// the encoder of Qwen3-Omni and Qwen3-ASR begins with (Xu et al. 2025). A token is a time of the last one's results. It
// brings all that these are made of, so that tokens need no results of others: those of the second convolution at three
// times, each made of those of the first at three.
type Planes struct{ bands [4]int } // of the spectrum, and of the results of each convolution

// PlanesOf returns the convolutions over so many bands.
func PlanesOf(bands int) (p Planes) {
	p.bands = halved(bands)
	return p
}

// halved returns a size of a spectrum, and what it is of the results of each convolution.
func halved(n int) (all [4]int) {
	for i := range all {
		all[i] = n
		n = (n + 1) / 2
	}
	return all
}

// Times returns how many times the results of the last convolution have, of a spectrum of so many frames.
func (Planes) Times(frames int) int { return halved(frames)[3] }

// The taps of a convolution, in one direction and in both.
const (
	planeTaps = 3
	allTaps   = planeTaps * planeTaps
)

// group is how many bands of the second convolution are computed at a time. Others would need all of the first's results.
func (p Planes) group() int {
	for n := min(8, p.bands[2]); ; n-- {
		if p.bands[2]%n == 0 {
			return n
		}
	}
}

// A block is what a token brings for a group of bands of the second convolution at one time: the taps of all results of the
// first that these are made of, each in a Panel, and whether there are such results, 1 or 0.
func (p Planes) block() (results, columns int) {
	results = (2*p.group() + 1) * planeTaps
	return results, results*kernel.Panel + kernel.Pad(results)
}

// second returns the column from which on a token brings whether there are results of the second convolution, for each band
// and time.
func (p Planes) second() int {
	_, columns := p.block()
	return planeTaps * p.bands[2] / p.group() * columns
}

// Columns returns how many columns a token brings.
func (p Planes) Columns() int { return p.second() + kernel.Pad(planeTaps*p.bands[2]) }

// Fill writes what token `time` of a spectrum of so many frames brings. at returns a number of the spectrum.
func (p Planes) Fill(dst []float32, time, frames int, at func(frame, band int) float32) {
	clear(dst[:p.Columns()])
	results, columns := p.block()
	times, group := halved(frames), p.group()
	within := func(i, t, band int) bool { return t >= 0 && t < times[i] && band >= 0 && band < p.bands[i] }
	for tau := range planeTaps {
		t2 := 2*time - 1 + tau
		for band := range p.bands[2] {
			if within(2, t2, band) {
				dst[p.second()+planeTaps*band+tau] = 1
			}
		}
		for g := range p.bands[2] / group {
			block := dst[(tau*p.bands[2]/group+g)*columns:][:columns]
			for r := range results {
				t1, band1 := 2*t2-1+r%planeTaps, 2*g*group-1+r/planeTaps
				if !within(1, t1, band1) {
					continue
				}
				block[results*kernel.Panel+r] = 1
				for tap := range allTaps {
					if t, band := 2*t1-1+tap%planeTaps, 2*band1-1+tap/planeTaps; within(0, t, band) {
						block[r*kernel.Panel+tap] = at(t, band)
					}
				}
			}
		}
	}
}

// Planes is x = a product with the results of the convolutions p at the times of tokens.
func (b *Builder) Planes(p Planes) {
	const conv = "a.conv2d.%d."
	n := b.weights.Rows(fmt.Sprintf(conv, 1) + "weight")
	if n < 1 || n > MaxFF {
		check(fmt.Errorf("tensor %q: missing, or not of 1 to %d channels", fmt.Sprintf(conv, 1)+"weight", MaxFF))
	}
	wide := kernel.Pad(n)
	part := func(i, taps, in int) kernel.Part {
		name := fmt.Sprintf(conv, i)
		return kernel.Part{Matrix: b.byTaps(name+"weight", taps, in, n), Bias: b.Vector(name+"bias", n)}
	}
	first, second, third := part(1, 1, allTaps), part(2, allTaps, n), part(3, allTaps, n)
	results, columns := p.block()
	brought := b.Floats("spectrum", kernel.TokRows, columns)
	ones := b.Floats("first plane", kernel.TokRows, results*wide)
	twos := b.Floats("second plane", kernel.TokRows, (p.bands[2]+2)*planeTaps*wide)
	threes := b.Floats("third plane", kernel.TokRows, p.bands[3]*wide)
	// product computes results at places from columns of src that begin `apart` from each other, for columns `step` apart.
	product := func(m kernel.Part, dst, src kernel.Buf, from, cols, apart, places, to, step int) {
		act := b.Act(fmt.Sprintf("%d columns of a plane", cols), kernel.TokRows, cols, m.Matrix)
		for i := range places {
			m.Col = to + i*step
			b.Add(kernel.ToAct{Act: act, Src: src, SrcCol: from + i*apart, Cols: cols})
			b.Add(kernel.Matmul{Dst: dst, Act: act, Parts: []kernel.Part{m}, Epilogue: kernel.Apply, Fn: kernel.GELUErf})
		}
	}
	exist := func(dst, src kernel.Buf, to, from, n int) { // results that there are not become zeros
		b.Add(kernel.Gate{Dst: dst, DstCol: to, Src: src, SrcCol: from, Cols: wide, Segs: n, Fn: kernel.NoFn})
	}
	place, group := planeTaps*wide, p.group() // the times of a band
	for tau := range planeTaps {
		for g := range p.bands[2] / group {
			b.Add(kernel.Input{Dst: brought, From: (tau*p.bands[2]/group + g) * columns, Cols: columns, Clear: true})
			product(first, ones, brought, 0, kernel.Panel, kernel.Panel, results, 0, wide)
			exist(ones, brought, 0, results*kernel.Panel, results)
			product(second, twos, ones, 0, planeTaps*place, 2*place, group, (1+g*group)*place+tau*wide, place)
			if g > 0 || tau > 0 {
				continue
			}
			for _, side := range []int{0, p.bands[2] + 1} { // beside the bands there is what is beside those of the first: zeros
				b.Add(kernel.NormRows{
					Dst: twos, DstCol: side * place, Src: ones, Cols: place, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
				})
			}
		}
	}
	b.Add(kernel.Input{Dst: brought, From: p.second(), Cols: planeTaps * p.bands[2], Clear: true})
	exist(twos, brought, place, 0, planeTaps*p.bands[2])
	product(third, threes, twos, 0, planeTaps*place, 2*place, p.bands[3], 0, wide)
	out := b.byTaps("a.conv_out.weight", p.bands[3], n, b.Config.NEmbd)
	act := b.Act("third plane", kernel.TokRows, p.bands[3]*wide, out)
	b.Add(kernel.ToAct{Act: act, Src: threes, Cols: p.bands[3] * wide})
	b.Add(kernel.Matmul{
		Dst: b.X(), Act: act, Parts: []kernel.Part{{Matrix: out, Bias: b.optional("a.conv_out.bias", b.Config.NEmbd)}},
	})
}
