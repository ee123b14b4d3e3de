// Package projector defines the encoders of pictures and sounds that a projector's file (mmproj) has: the keys that each
// reads, its tensors and operations, and how a picture or a sound becomes the rows that it reads. There is one file for each
// kind, named after it; a kind is to encoders what an architecture is to text models.
//
// A kind is three or four functions: config reads keys, build adds operations in the words of package nn, and see or hear
// turn a picture or a sound into parts of a prompt: texts around it, and inputs of the encoder. Much of that is not in files,
// but in the processors of the models' publishers; each constant has its source beside it.
//
// The words are imported with a dot, as in package arch. The tests of the kinds are in go/model.
package projector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// A Sense is what an encoder takes.
type Sense int

const (
	Sight Sense = iota
	Hearing
)

// stem returns how the keys of its encoder begin.
func (s Sense) stem() string {
	if s == Hearing {
		return "clip.audio"
	}
	return "clip.vision"
}

// Tensors returns how the names of tensors of its layers begin.
func (s Sense) Tensors() string {
	if s == Hearing {
		return "a."
	}
	return "v."
}

// owns reports whether a tensor belongs to the encoder of this sense.
func (s Sense) owns(name string) bool {
	sounds := strings.HasPrefix(name, "a.") || strings.HasPrefix(name, "mm.a.")
	return sounds == (s == Hearing)
}

// A Kind is one kind of projector.
type Kind struct {
	Name   string // as clip.projector_type has it
	sense  Sense
	config func(e *Encoder, k *Keys)
	build  func(e *Encoder, b *Builder)
	see    func(e *Encoder, p *picture.RGB) []Part
	stamp  func(at float64) string                       // what stands before what is seen of a film after so many seconds; nil: minutes and seconds
	film   func(e *Encoder, steps []Part, f Film) []Part // the parts of a film, of which a step is an input each; nil: pictures with stamps
	hear   func(e *Encoder, samples []float32) []Part    // 16,000 a second
	Ask    Ask                                           // for what is said

	unsized  bool                 // files may say that pictures are of no size
	bothWays func(width int) bool // whether tokens of a picture see each other in both directions in text models of this width; nil: no
}

// An Ask is what the publisher of models says in a message for what is said in a sound, beside the sound. Of the zero value
// nothing is known.
type Ask struct{ System, Text string }

// kinds is the supported kinds, in the order in which errors list them.
var kinds = []*Kind{
	&qwen3vl, &gemma4v, &gemma4uv, &gemma3, &qwen25vl, &qwen2vl, &pixtral,
	&idefics3, &internvl, &mlp, &lfm2, &llama4, &kimivl, &glm4v,
	&kimik25, &paddleocr, &januspro, &exaone45, &dotsocr, &lightonocr, &hunyuanvl,
	&minicpmv46, &resampler, &minimaxm3, &youtuvl, &nemotronv2, &phi4, &museglimmer,
	&adapter, &ldp, &ldpv2, &mimovl, &step3vl, &granite4Vision, &deepseekOCR, &deepseekOCR2, &dots3NoteV, &cogvlm,
	&qwen25oSight,
	&gemma4ua, &gemma4a, &lfm2a, &parakeet, &qwen2a, &ultravox, &voxtral, &musicflamingo, &qwen3a,
	&qwen25o, &meralion, &graniteSpeech, &glma, &dots3NoteA,
}

// A Part of a prompt is a text, whose control tokens are tokens, or what the encoder makes of an input.
type Part struct {
	Text  string
	Known bool // the text is one token, and left out where the vocabulary lacks it
	Input *Input
}

// An Input is what an encoder reads at once. It is immutable.
type Input struct {
	Tokens   int                            // patches or frames
	Columns  int                            // of the row that each brings
	Row      func(dst []float32, i int)     // writes the row of token i
	Place    func(i int) [kernel.Axes]int32 // where token i is; nil: at its index on all axes
	Seen     int                            // of the tokens, which others see; behind them is padding; 0: all
	Windows  []int                          // how many tokens each window has, in succession; nil: there are none
	Sees     func(i int) (from, to int)     // which tokens one sees in layers with windows; nil: see Band
	Band     int                            // how many tokens before and behind it one sees in layers with windows; 0: see Windows
	Order    []int32                        // of the rows that are made: row i is number Order[i], or if that is below 0 Breaks[-1-Order[i]]
	Breaks   [][]float32                    // see Order
	Made     int                            // rows that are made of the tokens, without breaks
	Again    *Input                         // of what runs over the rows that are made first, see nn.Strand.Again; nil: these, which bring nothing else
	From     func(i int) []int32            // of which of these rows token i brings what, side by side, and below 0 zeros; nil: row i
	First    int                            // the tokens before this number serve the others alone, and nothing is made of them
	Step     Step                           // of a film
	Grid     struct{ Columns, Rows int }    // of the rows of a picture, but for one before it and one behind it, if they are as many more; 0: they have none
	OnePlace bool                           // the rows between the first and the last are at one place
}

// A Step says where an input is that is one of a film whose inputs have places of their own, counted from where the film begins.
type Step struct {
	Before int // the place that follows what is before it
	Time   int // of its rows, which begin at row and column 0
	After  int // the place that follows it; 0: it is not of such a film
}

// Rows returns how many rows of embeddings the encoder makes.
func (in *Input) Rows() int {
	if in.Order != nil {
		return len(in.Order)
	}
	return in.Made
}

// An Encoder is that of a file for one sense.
type Encoder struct {
	Kind   *Kind
	Config *Config
	Width  int  // of the text models that it is for
	Short  bool // floats of layers are 8 bits in memory, which rows depend on
	Extra  int  // columns of its rows behind these, see nn.Seen
	Deep   int  // how many layers of these have columns of its rows added: see arch.qwen3vl

	settings
	file    *gguf.File
	tables  map[string]table
	class   [][]float32    // what tokens for the whole picture bring behind its pixels
	first   int            // the position of the first patch
	breaks  [][]float32    // rows that are the same in all pictures
	taps    [][]float32    // of a convolution of each channel on its own
	mobile  [2]MobileBlock // of MobileVLM
	tapBias []float32
	queries table        // what asks the patches, see resampler
	waves   [][2]float64 // the sine and the cosine of a step of each wave

	second *picture.RGB // the frame after the picture, of its size; nil: the picture once more
}

// settings are what kinds read beside the sizes of the layers.
type settings struct {
	blocks    blocks         // of Granite Speech
	asked     asked          // of Granite Vision
	experts   []int          // of the layers; 0: such a layer has a feed-forward
	sam       sam            // in front of its layers
	byView    [2]table       // the queries of a picture, and of a tile
	reduced   [2][][]float32 // the embeddings of positions of what convolutions make of a picture, and of a tile
	Side      int            // pixels of the square pictures that the encoder was trained on
	Patch     int            // pixels of a side of a patch
	Merge     int            // patches of a side of a row; 1: each is one
	Midway    int            // the number of the layer behind which they are made, beginning at 1
	Inner     int            // patches of a side of the rows that are made first, and of which others are; 0: there are none
	Frames    int            // of a film that a row is made of
	FilmRows  int            // of each at most; 0: as of pictures
	Mean, Std [3]float32     // of the channels
	MinRows   int            // of a picture, where its size is not fixed
	MaxRows   int
	MaxSide   int  // patches of a side at most; 0: any
	Window    int  // rows of a side of a window of patches that see each other
	Stack     int  // frames of a row of a sound
	Swapped   bool // see FeedForward
	Gated     bool // feed-forwards are
	Fn        kernel.Fn
	QKNorm    QKNorm         // of the layers
	Edge      int            // pixels of the longer side of pictures before they are cut into tiles
	Grids     []prepare.Grid // of tiles
	Least     int            // tiles of a picture that is cut
	Most      int
	Features  []int    // the numbers of layers whose results are read side by side, beginning at 1; nil: of the last one
	Columned  []bool   // layers that have squares of patches column by column
	Nested    bool     // slices of a picture are pictures among slices
	ByPixel   bool     // patches have the channels of a pixel in succession
	LastClass bool     // the position of the token for the whole picture is the last one
	Unread    []string // how the names of tensors begin that files have and encoders do not use
}

// Limits of settings. Files beyond them are corrupt.
const (
	maxSide  = 1 << 13
	maxPatch = 1 << 10
	maxMerge = 1 << 4
	maxStack = 1 << 6
)

// Names returns the names of the supported kinds of a sense.
func Names(s Sense) []string {
	var names []string
	for _, k := range kinds {
		if k.sense == s {
			names = append(names, k.Name)
		}
	}
	return names
}

// Read returns the encoder of a file for a sense. It is an error if the file has none, or one of a kind that is not
// supported.
func Read(f *gguf.File, s Sense) (*Encoder, error) {
	of, err := f.Projector()
	if err != nil {
		return nil, err
	}
	name, what := of.Vision, "pictures"
	if s == Hearing {
		name, what = of.Audio, "sounds"
	}
	if name == "" {
		return nil, fmt.Errorf("it has no encoder of %s", what)
	}
	i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == name && k.sense == s })
	if i < 0 {
		return nil, fmt.Errorf("projectors of the kind %.60q are not supported, supported for %s are %s", name, what, strings.Join(Names(s), " "))
	}
	if of.Width < 1 || of.Width > MaxEmbd {
		return nil, fmt.Errorf("key %q: %d, want 1 to %d", s.stem()+".projection_dim", of.Width, MaxEmbd)
	}
	e := &Encoder{Kind: kinds[i], Width: int(of.Width), file: f, tables: map[string]table{}}
	e.Config, err = ReadRowKeys(f, s.stem(), func(k *Keys) {
		if s == Sight {
			e.sight(k)
		}
		e.activation(k)
		e.Kind.config(e, k)
	})
	if err != nil {
		return nil, err
	}
	for _, t := range f.Tensors { // tables are read whole, and not by the program
		of := e.tables[t.Name]
		if t.Type != gguf.F32 && t.Type != gguf.F16 && t.Type != gguf.BF16 && of.rows > 0 && !of.quantized {
			return nil, fmt.Errorf("tensor %q: type %v, want F32, F16 or BF16", t.Name, t.Type)
		}
	}
	return e, nil
}

// sight reads what encoders of pictures have.
func (e *Encoder) sight(k *Keys) {
	least := 1
	if e.Kind.unsized {
		least = 0
	}
	e.Side, e.Patch, e.Merge = k.Int("image_size", least, maxSide), k.Int("patch_size", 1, maxPatch), 1
	e.Frames = 1
	for _, c := range []struct {
		key string
		to  *[3]float32
	}{{"image_mean", &e.Mean}, {"image_std", &e.Std}} {
		all, err := k.File.Floats(k.Name(c.key))
		k.Check(err)
		if len(all) != 3 || c.key == "image_std" && slices.ContainsFunc(all, func(v float32) bool { return !(v > 1e-6) }) {
			k.Fail(c.key, "%v, want three numbers, and deviations above 0", all)
		}
		copy(c.to[:], all)
	}
}

// activation reads the function of feed-forwards: without a key it is quick GELU.
func (e *Encoder) activation(k *Keys) {
	e.Fn = kernel.GELUQuick
	for _, a := range []struct {
		key string
		fn  kernel.Fn
	}{{"clip.use_gelu", kernel.GELU}, {"clip.use_silu", kernel.SiLU}} {
		if on, _ := k.File.Bool(a.key); on {
			e.Fn = a.fn
		}
	}
}

// swapped finds out whether the names of feed-forwards are each other's, as older files have them.
func (e *Encoder) swapped(k *Keys, stem string) {
	t, ok := k.File.Tensor(stem + "blk.0.ffn_down.weight")
	e.Swapped = ok && len(k.Config.Layers) > 0 && len(t.Dims) > 0 && t.Dims[0] == uint64(k.Config.NEmbd) &&
		k.Config.NEmbd != k.Config.Layers[0].NFF
}

// Build returns the program of the encoder.
func (e *Encoder) Build(w Weights, kv kernel.KVTypes) (*Program, error) {
	return BuildRows(e.Config, w, kv, func(b *Builder) { e.Kind.build(e, b) })
}

// Unknown returns an error for a tensor of this sense that neither the program nor the kind uses.
func (e *Encoder) Unknown(used map[string]bool) error {
	for _, t := range e.file.Tensors {
		unread := slices.ContainsFunc(e.Unread, func(stem string) bool { return strings.HasPrefix(t.Name, stem) })
		if _, asked := e.tables[t.Name]; e.Kind.sense.owns(t.Name) && !used[t.Name] && !asked && !unread {
			return fmt.Errorf("tensor %q is none that projectors of the kind %s have here: without it results would be wrong", t.Name, e.Kind.Name)
		}
	}
	return nil
}

// BothWays reports whether the tokens of a picture see each other in both directions.
func (e *Encoder) BothWays() bool { return e.Kind.bothWays != nil && e.Kind.bothWays(e.Width) }

// RowColumns returns how many columns a row has that text models of its width read.
func (e *Encoder) RowColumns() int { return e.Width*(1+e.Deep) + e.Extra }

// See returns what stands in a prompt for a picture.
func (e *Encoder) See(p *picture.RGB) []Part { return e.Kind.see(e, p) }

// Hear returns what stands in a prompt for a sound of 16,000 samples a second.
func (e *Encoder) Hear(samples []float32) []Part { return e.Kind.hear(e, samples) }
