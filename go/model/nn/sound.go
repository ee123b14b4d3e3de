package nn

import (
	"github.com/quern-llm/quern/go/kernel"
)

// What encoders of sound begin with.

// maxBands bounds the bands of a spectrum.
const maxBands = 1 << 12

// Hears reads what the encoder of a model of speech takes: the bands of a frame, and how many positions a source and an
// answer have.
func (k *Keys) Hears() {
	c := k.Config
	k.Bands()
	c.NSide, c.NAnswer = k.Int("encoder.context_length", 1, MaxCtx), c.NCtx
	c.NCtx = c.NSide + c.NAnswer
}

// An AlignedHead is a head of cross-attention in a layer of the decoder.
type AlignedHead struct{ Layer, Head int }

// alignedHeads is the key of these heads: the layer and the number of each, as Whisper's checkpoints list them.
const alignedHeads = Own + "alignment_heads"

// maxAligned bounds how many there are.
const maxAligned = 64

// Aligns reads which heads of cross-attention follow what is said, where the file says it. Layers have been read.
func (k *Keys) Aligns() {
	if !k.Has(alignedHeads) {
		return
	}
	all, err := k.File.Ints(k.Name(alignedHeads))
	k.Check(err)
	if len(all)%2 != 0 || len(all) == 0 || len(all) > 2*maxAligned {
		k.Fail(alignedHeads, "%d numbers, want a layer and a head for each of 1 to %d", len(all), maxAligned)
	}
	for i := 0; i < len(all); i += 2 {
		il, head := all[i], all[i+1]
		if il < 0 || il >= int64(len(k.Config.Layers)) || head < 0 || head >= int64(k.Config.Layers[il].NHead) {
			k.Fail(alignedHeads, "head %d of layer %d, which the decoder lacks", head, il)
		}
		if l := k.Config.Layers[il]; l.NHead != l.NHeadKV {
			k.Fail(alignedHeads, "%d heads of keys for %d, want as many", l.NHeadKV, l.NHead)
		}
		k.Config.Aligned = append(k.Config.Aligned, AlignedHead{int(il), int(head)})
	}
}

// Bands reads the bands of a frame.
func (k *Keys) Bands() { k.Config.Sound.Bands = k.Int("num_mel_bins", 1, maxBands) }

// Frames is the two convolutions over frames of a spectrum that Whisper's encoder begins with (Radford et al. 2022),
// both of three taps: the second halves their number. A token of the source is a result of the second. Its row, from
// kernel.Batch.Bring, has the four frames that the two results of the first convolution are made of which are its own;
// a third is the second one of the token before.
func (b *Builder) Frames() {
	const taps = 3
	c := b.Config
	n, in := c.NEmbd, taps*c.Sound.Bands
	first, second := b.Matrix("enc.conv1d.1.weight", in, n), b.Matrix("enc.conv1d.2.weight", taps*n, n)
	width := kernel.Pad(in)
	frames, made := b.Floats("frames", kernel.TokRows, 2*width), b.Floats("convolved", kernel.TokRows, 2*n)
	around := b.Floats("around", kernel.TokRows, taps*n)
	own := kernel.Matmul{Epilogue: kernel.Apply, Fn: kernel.GELUErf}
	for i := range 2 {
		b.Add(kernel.Input{Dst: frames, DstCol: i * width, From: i * c.Sound.Bands, Cols: in, Clear: true})
	}
	act := b.Act("frames", kernel.TokRows, in, first)
	for i := range 2 {
		b.Add(kernel.ToAct{Act: act, Src: frames, SrcCol: i * width, Cols: in})
		op := own
		op.Dst, op.Act = made, act
		op.Parts = []kernel.Part{{Matrix: first, Bias: b.Vector("enc.conv1d.1.bias", n), Col: i * n}}
		b.Add(op)
	}
	b.Add(kernel.Conv{ // a copy of what the token before made second
		Dst: around, Src: made, Col: [3]int{n}, Cols: n, Taps: 3, Ahead: 1,
		Weight: b.constants("tap of the frame before", n*3, func(i int) float64 {
			if i%3 == 0 {
				return 1
			}
			return 0
		}),
	})
	b.Add(kernel.NormRows{Dst: around, DstCol: n, Src: made, Cols: 2 * n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
	act = b.Act("around", kernel.TokRows, taps*n, second)
	b.Add(kernel.ToAct{Act: act, Src: around, Cols: taps * n})
	own.Dst, own.Act = b.X(), act
	own.Parts = []kernel.Part{{Matrix: second, Bias: b.Vector("enc.conv1d.2.bias", n)}}
	b.Add(own)
}

// Convolved is x = the two convolutions of Frames for an encoder of rows, whose tokens do not see each other before the
// layers. So each brings the five frames that its result is made of, of Pad(bands) columns each, and behind them which of the
// three results of the first convolution there are.
func (b *Builder) Convolved(bands int) {
	const taps, around = 3, 5
	n, each := b.Config.NEmbd, kernel.Pad(bands)
	wide := kernel.Pad(n)
	first, second := b.byTaps("a.conv1d.1.weight", taps, bands, n), b.byTaps("a.conv1d.2.weight", taps, n, n)
	frames := b.Floats("frames", kernel.TokRows, around*each+kernel.Panel)
	made := b.Floats("convolved", kernel.TokRows, taps*wide)
	b.Add(kernel.Input{Dst: frames, Cols: around*each + taps, Clear: true})
	act := b.Act("frames", kernel.TokRows, taps*each, first)
	own := kernel.Matmul{Epilogue: kernel.Apply, Fn: kernel.GELUErf}
	for i := range taps {
		b.Add(kernel.ToAct{Act: act, Src: frames, SrcCol: i * each, Cols: taps * each})
		op := own
		op.Dst, op.Act = made, act
		op.Parts = []kernel.Part{{Matrix: first, Bias: b.Vector("a.conv1d.1.bias", n), Col: i * wide}}
		b.Add(op)
	}
	b.Add(kernel.Gate{Dst: made, Src: frames, SrcCol: around * each, Cols: wide, Segs: taps, Fn: kernel.NoFn})
	act = b.Act("convolved", kernel.TokRows, taps*wide, second)
	b.Add(kernel.ToAct{Act: act, Src: made, Cols: taps * wide})
	own.Dst, own.Act = b.X(), act
	own.Parts = []kernel.Part{{Matrix: second, Bias: b.Vector("a.conv1d.2.bias", n)}}
	b.Add(own)
}

// byTaps returns the kernels of a convolution: see Weights.Taps.
func (b *Builder) byTaps(name string, taps, in, out int) kernel.Matrix {
	return must(b.weights.Taps(name, TapsOfChannels, taps, in, out))
}
