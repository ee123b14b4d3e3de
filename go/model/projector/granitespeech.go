package projector

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// graniteSpeech is the encoder of sounds of Granite Speech (IBM 2025): a conformer over blocks of tokens, half way of which what
// it would write is added, and queries that ask windows of its tokens.
var graniteSpeech = Kind{
	Name:  "granite_speech",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		k.Bands()
		c := k.Config
		c.Norm = kernel.LayerNorm
		s := &e.blocks
		s.block, s.window = k.Int("chunk_size", 1, 1<<12), k.Int("projector.window_size", 1, maxStack)
		s.heads = k.Int("projector.head_count", 1, MaxHead)
		k.Int("max_pos_emb", 1, 1<<16)
		k.Int("conv_kernel_size", 1, maxStack) // as many as the tensors have
		if k.Has("feature_layer") {
			list, err := k.File.Ints(k.Name("feature_layer"))
			k.Check(err)
			for i, il := range list {
				if il < 0 || il >= int64(len(c.Layers)) || i > 0 && il <= list[i-1] {
					k.Fail("feature_layer", "%v, want rising numbers of layers, 0 to %d", list, len(c.Layers)-1)
				}
				s.features = append(s.features, int(il))
			}
		}
		if c.NEmbd%(kernel.Panel*s.heads) != 0 || c.Sound.Bands%2 != 0 || len(c.Layers) < 2 {
			k.Fail("projector.head_count", "%d heads of %d columns, %d bands of two frames, %d layers; want multiples of %d, an even number, "+
				"and 2 at least", s.heads, c.NEmbd, c.Sound.Bands, len(c.Layers), kernel.Panel)
		}
		n := c.NEmbd
		classes := e.product(k, "a.enc_ctc_out.weight", n)
		biases, mid := e.table(k, "a.enc_ctc_out.bias", classes.rows), e.product(k, "a.enc_ctc_out_mid.weight", classes.rows)
		if biases.rows != 1 || mid.rows != n {
			k.Check(fmt.Errorf("tensor %q: %d rows, want %d", "a.enc_ctc_out_mid.weight", mid.rows, n))
		}
		s.classes, s.biases, s.mid = classes, biases, mid
		s.queries = e.product(k, "a.proj_query", n)
		weights, bias := e.table(k, "a.proj_norm.weight", n).row(0), e.table(k, "a.proj_norm.bias", n).row(0)
		for i := range s.queries.rows {
			centred(s.queries.row(i), weights, bias, qformerEps)
		}
		if want := s.window / k.Int("projector.downsample_rate", 1, s.window); s.queries.rows != want {
			k.Fail("projector.downsample_rate", "%d queries for each window of %d, want %d", s.queries.rows, s.window, want)
		}
	},
	build: func(e *Encoder, b *Builder) {
		c, s := b.Config, &e.blocks
		layer := func(l Layer) {
			l.HalfStep("")
			l.ShawAttention("ln1", s.block, "attn_out")
			l.Convolve(ConvModule{Norm: "norm_conv", Inner: "conv_norm", Batch: true, Ahead: -1})
			l.HalfStep("_1")
			l.Normalise("ln2")
		}
		kept, width := b.Keep(len(s.features)+1), s.width(c.NEmbd)
		keep := func(il int) {
			if i := slices.Index(s.features, il); i >= 0 {
				kept.Put(i)
			}
		}
		b.Patches(c.Sound.Bands, "", "a.input_projection.weight")
		keep(0)
		b.BegunRows()
		for il, sizes := range c.Layers {
			b.RowLayer(fmt.Sprintf("a.blk.%d.", il), sizes, layer)
			keep(il + 1)
			if il+1 == len(c.Layers)/2 {
				b.Beside(1).Again(nil, b.BringClasses)
				b.RowLayer("a.", sizes, func(l Layer) { l.Classes("enc_ctc_out_mid.bias") })
				b.Beside(1).Again(nil, nil)
			}
		}
		asking := *c
		asking.Eps = qformerEps
		kept.Put(len(s.features))
		kept.Strand().Again(&asking, func() { b.BringWindows(width) })
		sizes := c.Layers[0]
		sizes.NHead, sizes.NHeadKV = s.heads, s.heads
		sizes.HeadDim, sizes.ValueDim = c.NEmbd/s.heads, c.NEmbd/s.heads
		sizes.AttnScale = float32(1 / math.Sqrt(float64(sizes.HeadDim)))
		for il := range 2 {
			b.RowLayer(fmt.Sprintf("a.proj_blk.%d.", il), sizes, func(l Layer) { l.QFormer(width) })
		}
		b.Beside(1).Product("a.proj_linear").Out()
	},
	Ask: Ask{Text: "can you transcribe the speech into a written format?"},
	hear: func(e *Encoder, samples []float32) []Part {
		const window = 400
		bands := e.Config.Sound.Bands / 2
		front := prepare.Spectrum{
			Bands: bands, Window: prepare.Hann(window, true), Lead: window / 2, HTK: true, Reflected: true,
			Log: func(v float64) float64 { return exactmath.QuickLog(max(v, 1e-10)) / math.Ln10 },
		}
		frames := max((len(samples)/prepare.MelHop+1)/2*2, 2)
		return []Part{{Input: e.blocked(front.Loud(samples, frames), frames/2)}}
	},
}

// unseen is added to scores of keys of a Q-Former that none sees.
const unseen = -1e5

// qformerEps is that of Blip2QFormerConfig.
const qformerEps = 1e-12

// blocks are what Granite Speech has beside its layers.
type blocks struct {
	block, window, heads int
	features             []int // whose results the queries ask too, by how many layers there are before them
	classes, biases, mid table // what it would write: rows to multiply, what is added, and by columns what is made of them
	queries              table
}

// width returns how many columns a row that the queries ask has.
func (s *blocks) width(n int) int { return n * (len(s.features) + 1) }

// centred normalises a row to the mean 0 and the deviation 1, times weights, plus biases.
func centred(row, weights, biases []float32, eps float64) {
	var sum, squares float64
	for _, v := range row {
		sum += float64(v)
	}
	mean := sum / float64(len(row))
	for _, v := range row {
		d := float64(v) - mean
		squares += float64(d * d)
	}
	by := 1 / math.Sqrt(squares/float64(len(row))+eps)
	for i, v := range row {
		row[i] = float32(float64(float64(float64(v)-mean)*by)*float64(weights[i])) + biases[i]
	}
}

// windowsOf returns the sizes of windows of so many tokens.
func windowsOf(tokens, each int) (sizes []int) {
	for from := 0; from < tokens; from += each {
		sizes = append(sizes, min(each, tokens-from))
	}
	return sizes
}

// blocked returns the input of a spectrum, two frames of which are a token.
func (e *Encoder) blocked(spectrum []float32, tokens int) *Input {
	s, n := &e.blocks, e.Config.NEmbd
	bands, each, asked := e.Config.Sound.Bands, s.window+s.queries.rows, s.queries.rows
	windows := (tokens + s.window - 1) / s.window
	width := s.width(n)
	heard := &Input{Tokens: windows * each, Columns: width + n + 2*kernel.Panel}
	heard.From = func(i int) []int32 {
		if at := i/each*s.window + i%each; i%each < s.window && at < tokens {
			return []int32{int32(at)}
		}
		return []int32{-1}
	}
	for range windows {
		heard.Windows = append(heard.Windows, each)
	}
	heard.Row = func(dst []float32, i int) {
		clear(dst)
		if j := i%each - s.window; j >= 0 {
			copy(dst[width:], s.queries.row(j))
			dst[width+n+kernel.Panel] = unseen
		} else {
			dst[width+n] = unseen
		}
	}
	second := &Input{Tokens: tokens, Columns: n, Windows: windowsOf(tokens, s.block), Again: heard}
	classes := s.classes.rows
	mid := &Input{Tokens: classes + tokens, Columns: 3*n + kernel.Panel, Seen: classes, First: classes, Again: second}
	mid.From = func(i int) []int32 { return []int32{int32(max(i-classes, -1))} }
	mid.Row = func(dst []float32, i int) {
		clear(dst)
		if i >= classes {
			return
		}
		copy(dst[n:], s.classes.row(i))
		dst[2*n] = s.biases.v[i]
		for c := range n {
			dst[2*n+kernel.Panel+c] = s.mid.row(c)[i]
		}
	}
	in := &Input{
		Tokens: tokens, Columns: bands, Windows: windowsOf(tokens, s.block), Again: mid, Made: windows * each,
		Row: func(dst []float32, i int) { copy(dst, spectrum[i*bands:][:bands]) },
	}
	for w := range windows {
		for q := range asked {
			in.Order = append(in.Order, int32(w*each+s.window+q))
		}
	}
	return in
}
