package nn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// Config is the sizes and constants of a model. It is data without pointers to
// anything else: printed, it tells one configuration from another.
type Config struct {
	Arch string // general.architecture
	Name string // general.name; may be empty

	NVocab int // rows of the embedding
	NCtx   int // positions that the model was trained for
	NEmbd  int // residual width
	Layers []LayerConfig
	Head   Head // of another file, which drafts; the zero value: none
	Drafts bool // the head, or the blocks that predict tokens further on, are run, to draft: see Next
	Ctx    int  // positions that a sequence may have: NCtx, unless For was asked for others

	NNext      int           // blocks after the layers, which predict tokens further on
	NextLayers []LayerConfig // their sizes, where files say: see next
	NextRaw    bool          // hidden states that they are given and give are not normalised

	Encoder []LayerConfig // of an encoder, whose text the layers answer; nil: no encoder
	Start   int32         // the first token of an answer

	Loops    int    // how often the layers of the file are run; 0: once
	LoopNorm bool   // between two of these times is the last norm
	Cycles   Cycles // the zero value: there are none

	BothWays  bool      // a token sees those after it as well: a text is one batch
	Pooling   Pooling   // how the vector of a text is computed
	Positions bool      // there are embeddings of NCtx positions, and no more
	NType     int       // embeddings of types of tokens, of which only the first is used; 0: none
	ALiBi     bool      // scores fall with the distance, in each head by another slope
	EncoderFn kernel.Fn // of the feed-forward, where files say
	NDense    int       // width between two products that end in the vector of a text; 0: there are none
	NBucket   int       // of distances, for which heads have biases; 0: none

	Norm          kernel.NormKind // of the residual
	BareNorms     bool            // they have no weights
	Eps           float32
	EmbedScale    float32 // of embeddings
	EmbedNorm     bool    // they are normalised, without weights
	Parallel      bool    // both sublayers of a layer are side by side, where files say
	PostNorm      bool    // norms are behind the sublayers of a layer, where files say
	Suppressed    [2]int  // tokens from the first of these to below the second are never said
	ResidualScale float32 // of what a sublayer adds to the residual
	NormedScale   float32 // of the normalised input of a sublayer, where what it makes is added to that; 0: to the residual
	LogitScale    float32
	AttnLimit     float32 // queries, keys and values are within it on both sides; 0: they are not
	ValueScale    float32 // of what heads have made; 0: 1
	GateCap       float32 // the gate of a feed-forward has a second factor, itself, which becomes cap * tanh(gate / cap); 0: it has not
	UpCap         float32 // and what it opens to becomes cap * tanh(up / cap) then
	AttnResBlock  int     // layers of a block of the residual, see attnRes; 0: it is not attended to
	AttnCap       float32 // scores become cap * tanh(score / cap); 0: they do not
	LogitCap      float32 // so do logits

	NExpert      int // 0: the feed-forward part is dense
	NExpertUsed  int // by each token
	NFFExpert    int // feed-forward width of an expert
	NLatent      int // width of what experts take and give, between projections; 0: that of the residual, without
	NFFShared    int // and of the experts that every token uses, together
	NGroup       int // of experts, of which a token uses NGroupUsed; 0: they have no groups
	NGroupUsed   int
	GroupBest    bool // a group counts for its best expert alone, not for two
	ExpertGating kernel.Gating
	ExpertNorm   bool    // the weights of the experts of a token sum to 1
	ExpertScale  float32 // of these weights
	RouterCap    float32 // the router's logits become cap * tanh(logit / cap); 0: they do not
	Adjugate     Adjugate
	LimitFn      bool // limits of layers are those of what the function makes, also in dense layers, not of what goes into it

	NPerLayer int // numbers of each token that every layer has an embedding of its own for; 0: none

	NTap  int   // positions that a short convolution sees, its own included; 0: no convolution
	Delta Delta // the zero value: there are no delta nets
	Scan  Scan  // the zero value: there are no selective state spaces
	RWKV  RWKV  // the zero value: there is no time mixing

	Latent       Latent     // the zero value: attention keeps keys and values
	WindowLatent Latent     // of layers with a window; the zero value: the same
	Compressed   Compressed // the zero value: no keys stand for several positions
	Hyper        Hyper      // the zero value: the residual is one
	NGram        NGram      // the zero value: tokens are not hashed

	Classifier Classifier // the zero value: no classifier
}

// A Latent is the sizes of attention over latents. What a layer calls its heads is then
// the latent with the rotated part, and the latent.
type Latent struct {
	Rank      int // of keys and values together
	QueryRank int // of queries; 0: they have all of it
	KeyDim    int // of a query of a head, of which RopeDim are rotated
	RopeDim   int
	ValueDim  int
	Index     Index // the zero value: all positions are attended to
}

// An Index is the sizes of what chooses the positions that are attended to.
type Index struct {
	NHead, Dim int
	TopK       int // positions
	Local      int // positions that are seen in any case; 0: those of no whole span
	Rope       kernel.Rope
	RopeAt     int     // the first channel that is rotated
	Eps        float32 // of the norm of its keys
}

// A Delta is the sizes of the gated delta nets of a model, in place of attention.
type Delta struct {
	NHead, NHeadKey  int     // of values; of queries and keys
	KeyDim, ValueDim int     // of a head
	LowerBound       float32 // logarithm of a decay; 0: no bound
	Signed           bool    // what decays of channels fall by is below 0 in files, a vector of one dimension
}

// A Scan is the sizes of the selective state spaces of a model, beside attention or in place of it.
type Scan struct {
	Inner, State  int  // channels, and numbers of the state of each
	NHead, NGroup int  // of the second kind (Mamba 2): heads have a step, groups what multiplies the state
	Rank          int  // of the first kind (Mamba): that of the projection of the steps, which channels have
	NormAll       bool // of the first kind: all that the state space is given is normalised, without weights
}

// An RWKV is the sizes of the time mixing of RWKV, in place of attention: a head, and the ranks of what its decays and,
// of RWKV 7, its rates, the share of the first layer's values and the gate of its result are made by, of RWKV 6 the
// shares of the token before.
type RWKV struct {
	HeadDim                  int
	Decay, Rate, Value, Gate int // Gate 0: no gate
	TokenShift               int
	Bare                     bool // files need not have a norm of the result, and of RWKV 6 have none
	Halve                    int  // the residual is halved after each group of this many layers; 0: never
}

// A LayerConfig is the sizes of one block.
type LayerConfig struct {
	NHead, NHeadKV int                // without key-value heads it is another kind of layer
	HeadDim        int                // of a query and of a key
	ValueDim       int                // of a value
	AttnScale      float32            // scale of queries
	SharedKV       bool               // it has no keys and values: it reads those of the last layer of the same window that has
	Window         int                // positions that a token sees, its own included; 0: all
	Chunked        bool               // of them only those since the last multiple of Window
	Temperature    kernel.Temperature // of queries
	HeadGates      bool               // the gate of the attention has a number for each head
	Rope           Rope               // the zero value: none
	NFF            int                // feed-forward width
	GateCutoff     float32            // feed-forward gates stay open from this many standard deviations above the mean; 0: all
	Sparse         bool               // it has experts
	Hashed         bool               // which the token decides
	ExpertLimit    float32            // of what goes into their function; 0: none
	SharedLimit    float32            // and into that of the shared ones
	CompressRatio  int                // positions that an entry stands for; 0: there are none
	Indexed        bool               // it chooses positions; else they are those of the layer before
	XIELU          kernel.XIELUParams
}

// Limits on the sizes of a model. Real ones stay far below; a file beyond them is
// corrupt or malicious, and is refused before its numbers size any allocation.
const (
	MaxCtx     = 1 << 28
	MaxEmbd    = 1 << 20
	MaxFF      = 1 << 22
	MaxLayer   = 1 << 12
	MaxHead    = 1 << 14
	MaxHeadDim = 1 << 12
	MaxVocab   = 1 << 24
	maxExpert  = 1 << 12
	maxUsed    = 1 << 8
	MaxTap     = 1 << 6
	maxChosen  = 1 << 16
)

// ReadKeys returns the configuration of a file of an architecture, whose keys read reads. Errors name the key.
func ReadKeys(f *gguf.File, arch string, read func(k *Keys)) (c *Config, err error) {
	defer stopped(&err)
	k := &Keys{File: f, Config: &Config{Arch: arch, EmbedScale: 1, ResidualScale: 1, LogitScale: 1, ExpertScale: 1}}
	k.Config.Name, _ = f.Str("general.name")
	k.model()
	read(k)
	k.windowBase()
	k.classifier()
	k.unread()
	if k.Config.NVocab, err = vocab(f); err != nil {
		return nil, err
	}
	return k.Config, nil
}

// OnePass reports whether a text is evaluated in a pass as a whole, for its tokens see those after them.
func (c *Config) OnePass() bool { return c.BothWays || len(c.Encoder) > 0 }

// For returns the configuration for sequences of up to ctx positions; 0 is as many as the
// model was trained for.
func (c *Config) For(ctx int) *Config {
	cfg := *c
	cfg.Ctx = cmp.Or(ctx, c.NCtx)
	cfg.Layers = slices.Clone(c.Layers)
	for il := range cfg.Layers {
		r := &cfg.Layers[il].Rope
		if r.NCtxShort == 0 {
			continue
		}
		r.Factors = shortFactors
		if cfg.Ctx > r.NCtxShort {
			r.Factors = longFactors
		}
	}
	return &cfg
}

// vocab returns the rows of the embedding. That is what logits are made for:
// the tokenizer may know fewer, where a model's vocabulary was padded.
func vocab(f *gguf.File) (int, error) {
	const name = "token_embd.weight"
	t, ok := f.Tensor(name)
	if !ok {
		return 0, fmt.Errorf("tensor %q is missing", name)
	}
	if len(t.Dims) != 2 || t.Dims[1] > MaxVocab {
		return 0, fmt.Errorf("tensor %q: shape %v, want two dimensions and at most %d rows", name, t.Dims, MaxVocab)
	}
	return int(t.Dims[1]), nil
}

// Cycles is how often the stacks of a model run: the zero value is of models that have none.
type Cycles struct {
	Each      int // layers of a stack
	High, Low int // runs of the high stack, and of the low one before each of these
}

// MaxCap bounds soft caps: beyond, their quotients overflow.
const MaxCap = 1e30
