package nn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// Config is the sizes and constants of a model. It is plain data: two configurations that print alike are equal.
type Config struct {
	Arch string // general.architecture
	Name string // general.name; may be empty

	NVocab int // rows of the embedding
	NCtx   int // positions that the model was trained for
	NEmbd  int // residual width
	Layers []LayerConfig
	Head   Head // in another file, which drafts; the zero value: none
	Drafts bool // the head or the blocks that predict further tokens run, to draft: see Next
	Ctx    int  // positions that a sequence may have: NCtx, or what For was given

	NNext      int           // blocks after the layers, which predict further tokens (multi-token prediction)
	NextLayers []LayerConfig // their sizes, if the file has them: see Config.next
	NextRaw    bool          // their input and output are hidden states before the norm

	Encoder []LayerConfig // of an encoder, whose text the layers read; nil: no encoder
	Start   []int32       // the tokens that an answer begins with: one, and what is forced behind it
	NSide   int           // positions that a source may have at most, and an answer as many, by their tables; 0: any
	NAnswer int           // of an answer, where they are not NSide
	Aligned []AlignedHead // of a decoder, whose attention to the source follows what is said
	Sound   Sound         // that an encoder hears, in place of a text; the zero value: it reads a text

	Loops    int    // runs of the layers of the file; 0: one
	LoopNorm bool   // the output norm is applied between two runs
	Cycles   Cycles // the zero value: none

	Fine         bool   // what products with quantized weights take has 16 bits instead of 8: see Survey.Finer
	Sparse       Sparse // which keys prompts read
	Media        bool   // tokens may bring rows, of pictures and sounds, in place of their embeddings
	ScalesMedia  bool   // these rows are scaled as embeddings are
	Deepstack    []int  // the layers that further columns of these rows are added in front of, NEmbd to each; the layers' number: behind all
	SenseExperts bool   // see Builder.SenseLayers
	// places of media are their own but for the first axis, which goes on from the text before (XD-RoPE)
	OwnPlaces bool

	BothWays  bool    // attention is bidirectional: a text is one batch
	Pooling   Pooling // how the vector of a text is computed
	Positions bool    // there are embeddings of NCtx positions
	NType     int     // embeddings of token types; 0: none
	ALiBi     bool    // scores fall with the distance, by a slope per head
	// slopes are those of scores before their scale, and rounded to BF16, as transformers' Falcon has them
	ALiBiScaled bool
	NNarrow     int           // width of the embeddings, if it is not that of the residual; 0: it is
	Dense       []DenseConfig // layers after the pooling; nil: none
	Prompts     Prompts
	MaxText     int // tokens that texts are cut to, where they are; 0: the context
	NBucket     int // of distances, with a bias per head each; 0: none
	Distances   Distances
	ConvTaps    int    // of the convolution beside the first layer of an encoder; 0: none
	ConvFn      string // of its result, as transformers names it

	Norm          kernel.NormKind // of the residual
	BareNorms     bool            // norms have no weights
	Eps           float32
	LinearEps     float32 // of norms of the results of linear attention; 0: Eps
	Embedding     string  // the tensor with a row for each token
	PostEps       float32 // of norms behind sublayers; 0: Eps
	OutputEps     float32 // of the norm before the output; 0: Eps
	EmbedScale    float32 // of embeddings
	EmbedNorm     bool    // embeddings are normalised, without weights
	Parallel      bool    // the sublayers of a layer are parallel, if files say it
	PostNorm      bool    // norms are after the sublayers, not before, if files say it
	Suppressed    [2]int  // tokens from the first number to below the second are never generated
	ResidualScale float32 // of the result of a sublayer
	NormedScale   float32 // of the norm that a sublayer's result is added to: see DeepNorm; 0: to the residual
	NormedLinear  float32 // the same of linear attention; 0: NormedScale
	NormedFF      float32 // of feed-forwards; 0: NormedScale
	LogitScale    float32
	AttnLimit     float32 // queries, keys and values are clamped to +-AttnLimit; 0: not
	ValueScale    float32 // of the results of heads; 0: 1
	GateCap       float32 // the gate of a feed-forward has a second factor, cap * tanh(gate / cap) (SiTU); 0: none
	UpCap         float32 // and up becomes cap * tanh(up / cap) then; 0: not
	AttnResBlock  int     // layers of a block of the residual: see AttnRes; 0: no attention residuals
	QKNorm        bool    // queries and keys are normalised, if files say it
	AttnCap       float32 // scores become cap * tanh(score / cap); 0: not
	LogitCap      float32 // so do logits

	Activation string // of feed-forwards, as transformers names it; empty: the architecture's

	NExpert      int // 0: the feed-forward is dense
	NExpertUsed  int // by a token
	NSame        int // experts beside these, which return their input
	NFFExpert    int // feed-forward width of an expert
	NLatent      int // width of the input and output of experts, between projections; 0: NEmbd, without projections
	NFFShared    int // of the shared experts together
	NGroup       int // of experts, of which a token uses NGroupUsed; 0: no groups
	NGroupUsed   int
	GroupBest    bool // the score of a group is that of its best expert, not of its two best
	ExpertGating kernel.Gating
	ExpertNorm   bool    // weights of the experts of a token sum to 1
	ExpertScale  float32 // of these weights
	RouterCap    float32 // scores of the router become cap * tanh(score / cap); 0: not
	Adjugate     Adjugate
	LimitFn      bool // limits are of the output of the activation, also in dense layers, not of its input

	NPerLayer int // width of the embeddings of a token that each layer has of its own; 0: none

	NTap  int   // positions that a short convolution sees, its own included; 0: none
	Delta Delta // the zero value: no delta nets
	Scan  Scan  // the zero value: no state spaces
	RWKV  RWKV  // the zero value: no RWKV
	LRU   LRU   // the zero value: no recurrent units

	NShared  int // blocks that layers take turns in; 0: each has its own
	NAdapter int // rank of the adapters of each use of such a block

	Latent       Latent     // the zero value: no latent attention
	WindowLatent Latent     // of layers with a window; the zero value: Latent
	Compressed   Compressed // the zero value: no compressed attention
	Hyper        Hyper      // the zero value: one stream
	AltUp        bool       // the residual has the streams of AltUp
	NLaurel      int        // the rank of Laurel
	NGram        NGram      // the zero value: none

	Classifier Classifier // the zero value: no classifier
}

// A DenseConfig is a dense layer after the pooling: its width, and the function of its result.
type DenseConfig struct {
	Out        int
	Activation string // as transformers names it; "identity": none
}

// Prompts are what a model was trained to have before texts, by the names of uses such as "query".
type Prompts struct {
	Names, Texts []string
	Default      string // the name of what is used where nobody asks for another; empty: none is
}

// Text returns the prompt of a name, and whether there is one.
func (p *Prompts) Text(name string) (text string, ok bool) {
	i := slices.Index(p.Names, name)
	if i < 0 {
		return "", false
	}
	return p.Texts[i], true
}

// A Sound is what the encoder of a model of speech takes: frames of so many bands of a mel spectrum, two for each token of
// the source.
type Sound struct{ Bands int }

// Columns returns the columns of the row that a token of the source brings: its two frames, the one before and the one
// after.
func (s Sound) Columns() int { return 4 * s.Bands }

// A Latent is the sizes of latent attention. HeadDim and ValueDim of a layer are then those of what is cached: the
// latent with the rotated part, and the latent.
type Latent struct {
	Rank      int // of the latent, for keys and values
	QueryRank int // of queries; 0: full rank
	KeyDim    int // of a query per head, RopeDim of it rotated
	RopeDim   int
	ValueDim  int
	Eps       float32 // of norms of latents; 0: that of the model
	Index     Index   // the zero value: attention to all positions
}

// An Index is the sizes of an indexer, which selects the positions to attend to (DeepSeek-AI 2025, "DeepSeek-V3.2").
type Index struct {
	NHead, Dim int
	TopK       int // positions
	Local      int // last positions that are always selected; 0: those after the last whole span
	Rope       kernel.Rope
	RopeAt     int     // the first channel that is rotated
	Eps        float32 // of the norm of keys
}

// A Delta is the sizes of gated delta nets (Yang et al. 2024), in place of attention.
type Delta struct {
	NHead, NHeadKey  int     // of values; of queries and keys
	KeyDim, ValueDim int     // of a head
	LowerBound       float32 // of the logarithm of a decay; 0: none
	Beta             float32 // that gates of what is written are multiplied by; 0: 1
	Eps              float32 // of the lengths of queries and keys; 0: that of the model
	Signed           bool    // ssm_a of bounded decays is negative in files, a vector of one dimension

	GateFn kernel.Fn // of the result, if not SiLU
}

// A Scan is the sizes of selective state spaces, in parallel with attention or in place of it.
type Scan struct {
	Inner, State  int     // channels, and the state of each
	NHead, NGroup int     // Mamba 2: heads have a step each, groups share b and c
	Rank          int     // Mamba 1: of the projection to steps, one per channel
	NormAll       bool    // Mamba 1: steps, b and c are normalised, without weights
	Eps           float32 // of these norms; Mamba 2: of the norm of the result, 0: that of the model

	StepMin, StepMax float32 // of steps; StepMax 0: none is the greatest
}

// An RWKV is the sizes of time mixing (Peng et al. 2024 and 2025), in place of attention: a head, and the ranks of
// projections: of decays; in RWKV 7 of in-context learning rates, of the share of the first layer's values, and of the
// gate; in RWKV 6 of token shift.
type RWKV struct {
	HeadDim                  int
	Decay, Rate, Value, Gate int // Gate 0: none
	TokenShift               int
	Bare                     bool // without a norm of the result in RWKV 6; in RWKV 7 it is optional
	Halve                    int  // the residual is halved after every Halve layers; 0: never
}

// An LRU is the sizes of recurrent units, in place of attention: columns, and the groups of them that have gates together.
type LRU struct{ Width, NHead int }

// A LayerConfig is the sizes of one transformer block.
type LayerConfig struct {
	NHead, NHeadKV int     // NHeadKV 0: no attention
	HeadDim        int     // of a query and a key
	ValueDim       int     // of a value
	AttnScale      float32 // scale of queries
	// it reads the keys and values of the last layer with the same window that has its own
	SharedKV    bool
	Window      int                // positions that a token sees, its own included; 0: all
	Chunked     bool               // only those since the last multiple of Window
	SeesMedia   bool               // tokens of a medium may see each other in both directions
	Temperature kernel.Temperature // of queries
	HeadGates   bool               // the gate of attention is one number per head
	Rope        Rope               // the zero value: none
	Turned      Rope               // of other dimensions, which comes first; the zero value: none
	NFF         int                // feed-forward width
	// feed-forward gates below the mean plus this many standard deviations are closed; 0: none
	GateCutoff    float32
	Sparse        bool    // it has experts
	Hashed        bool    // selected by the token's id
	ExpertLimit   float32 // of the input of their activation; 0: none
	SharedLimit   float32 // of that of shared experts; 0: none
	CompressRatio int     // positions per entry of compressed attention, or per span of an index; 0: none
	Indexed       bool    // it has an indexer; else it uses the selection of the layer before
	XIELU         kernel.XIELUParams
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
	k := &Keys{File: f, Config: &Config{
		Arch: arch, Embedding: tokenEmbedding, EmbedScale: 1, ResidualScale: 1, LogitScale: 1, ExpertScale: 1,
	}}
	k.Config.Name, _ = f.Str("general.name")
	k.model()
	read(k)
	k.otherWindows()
	k.windowBase()
	k.activation()
	k.classifier()
	k.dense()
	k.prompts()
	k.unread()
	if k.Config.NVocab, err = vocab(f, k.Config.Embedding); err != nil {
		return nil, err
	}
	return k.Config, nil
}

// OnePass reports whether a text is evaluated in one pass, because its tokens see those after them.
func (c *Config) OnePass() bool { return c.BothWays || len(c.Encoder) > 0 }

// For returns the configuration for sequences of up to ctx positions; 0 is NCtx.
func (c *Config) For(ctx int) *Config {
	cfg := *c
	cfg.Ctx = cmp.Or(ctx, c.NCtx)
	cfg.Layers = slices.Clone(c.Layers)
	for il := range cfg.Layers {
		r := &cfg.Layers[il].Rope
		if r.Dynamic > 0 && cfg.Ctx > c.NCtx && r.NRot > 2 {
			grow := r.Dynamic*float64(cfg.Ctx)/float64(c.NCtx) - (r.Dynamic - 1)
			r.Base *= exactmath.Pow(grow, float64(r.NRot)/float64(r.NRot-2))
		}
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

const tokenEmbedding, outputMatrix = "token_embd.weight", "output.weight"

// OutputEmbeds is for architectures whose files may have the embedding as the output matrix alone.
func (k *Keys) OutputEmbeds() {
	if _, ok := k.File.Tensor(tokenEmbedding); !ok {
		k.Config.Embedding = outputMatrix
	}
}

// vocab returns the rows of the embedding, which are the logits of a token: the tokenizer may have fewer, if the
// vocabulary was padded.
func vocab(f *gguf.File, name string) (int, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return 0, fmt.Errorf("tensor %q is missing", name)
	}
	if len(t.Dims) != 2 || t.Dims[1] > MaxVocab {
		return 0, fmt.Errorf("tensor %q: shape %v, want two dimensions and at most %d rows", name, t.Dims, MaxVocab)
	}
	return int(t.Dims[1]), nil
}

// Cycles is how often the two stacks of layers of a hierarchical reasoning model run. The zero value: there are no
// stacks.
type Cycles struct {
	Each      int // layers of a stack
	High, Low int // runs of the high stack, and of the low one before each of these
}

// MaxCap bounds soft caps: with larger ones quotients overflow.
const MaxCap = 1e30
