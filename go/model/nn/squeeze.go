package nn

import "github.com/quern-llm/quern/go/kernel"

// Blocks of convolutions of each channel on its own, with squeeze and excitation (Howard et al. 2019, "MobileNetV3").

// A MobileBlock is one of them. The rows that its tokens bring are those of Taps.
type MobileBlock struct {
	Name     string      // how the names of its tensors begin
	Taps     [][]float32 // of the convolution
	Residual bool        // the middle row is added to the result
}

// Mobile is x = norm(product(squeezed(hardswish(norm(convolution of what tokens bring))))), plus the row in the middle.
func (b *Builder) Mobile(m MobileBlock) {
	b.rowLayer(Layer{Builder: b, prefix: m.Name}, func(l Layer) {
		n := l.Config.NEmbd
		l.Normalise("0.1")
		l.hardSwish()
		l.squeeze("1.fc1", "1.fc2")
		out := must(l.weights.Flat(l.prefix+"2.0.weight", n, n))
		act := l.Act("mobile", kernel.TokRows, n, out)
		l.Add(kernel.ToAct{Act: act, Src: l.X(), Cols: n})
		l.Add(kernel.Matmul{Dst: l.X(), Act: act, Parts: []kernel.Part{{Matrix: out}}})
		l.Normalise("2.1")
		if m.Residual {
			l.plain(l.X(), kernel.Add, 1, l.whole("middle", n))
		}
	})
}

// BringTaps has tokens bring the rows of a MobileBlock.
func (b *Builder) BringTaps(m MobileBlock) {
	n := b.Config.NEmbd
	b.tapped(m.Name+"0.0", m.Taps, nil, kernel.Store)
	if m.Residual {
		b.Add(kernel.Input{Dst: b.whole("middle", n), From: len(m.Taps) / 2 * n, Cols: n, Clear: true})
	}
}

// hardSwish is x times x/6 + 1/2 between 0 and 1.
func (l Layer) hardSwish() {
	n := l.Config.NEmbd
	open := l.Floats("opened", kernel.TokRows, n)
	l.hardSigmoid(open, l.X(), n)
	l.Add(kernel.Gate{Dst: l.X(), Src: open, Cols: n, Fn: kernel.NoFn})
}

func (l Layer) hardSigmoid(dst, src kernel.Buf, n int) {
	l.Add(kernel.NormRows{
		Dst: dst, Src: src, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Low: 0, High: 1,
		Weight: l.Builder.constants("sixths", kernel.Pad(n), func(int) float64 { return 1.0 / 6 }),
		Bias:   l.Builder.constants("halves", kernel.Pad(n), func(int) float64 { return 0.5 }),
	})
}

// squeeze multiplies x by what two products make of the mean of all tokens, which is attention that has no preferences.
func (l Layer) squeeze(first, second string) {
	n := l.Config.NEmbd
	l.HeadDim, l.ValueDim = kernel.Panel, kernel.Panel
	for l.ValueDim < 128 && n%(2*l.ValueDim) == 0 {
		l.ValueDim *= 2
	}
	l.NHead, l.NHeadKV = n/l.ValueDim, n/l.ValueDim
	keys := l.NHead * l.HeadDim
	q := projection{buf: l.Floats("squeezed", kernel.TokRows, 2*keys+n), col: [3]int{0, keys, 2 * keys}}
	for i := range 2 {
		l.Add(kernel.NormRows{
			Dst: q.buf, DstCol: i * keys, Src: l.X(), Cols: kernel.Panel, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			Weight: l.Builder.constants("a panel of zeros", kernel.Panel, func(int) float64 { return 0 }),
		})
		for h := 1; h < l.NHead; h++ {
			l.Add(kernel.NormRows{
				Dst: q.buf, DstCol: i*keys + h*kernel.Panel, Src: q.buf, SrcCol: i * keys, Cols: kernel.Panel, Segs: 1, Kind: kernel.NoNorm,
				Scale: 1,
			})
		}
	}
	l.Add(kernel.NormRows{Dst: q.buf, DstCol: 2 * keys, Src: l.X(), Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
	mean := l.attendRows(q, 1, kernel.Attend{Side: kernel.SourceSide})
	hidden := l.channels(l.prefix + first)
	one, two := must(l.weights.Flat(l.prefix+first+".weight", n, hidden)), must(l.weights.Flat(l.prefix+second+".weight", hidden, n))
	act, made := l.Act("mean", kernel.TokRows, n, one), l.Floats("excited", kernel.TokRows, hidden)
	l.Add(kernel.ToAct{Act: act, Src: mean, Cols: n})
	l.Add(kernel.Matmul{
		Dst: made, Act: act, Parts: []kernel.Part{{Matrix: one, Bias: l.optional(first+".bias", hidden)}}, Epilogue: kernel.Apply, Fn: kernel.ReLU,
	})
	act = l.Act("excited", kernel.TokRows, hidden, two)
	l.Add(kernel.ToAct{Act: act, Src: made, Cols: hidden})
	l.Add(kernel.Matmul{Dst: mean, Act: act, Parts: []kernel.Part{{Matrix: two, Bias: l.optional(second+".bias", n)}}})
	l.hardSigmoid(mean, mean, n)
	l.Add(kernel.Gate{Dst: l.X(), Src: mean, Cols: n, Fn: kernel.NoFn})
}
