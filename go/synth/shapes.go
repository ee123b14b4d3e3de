package synth

import "strings"

// A Shape has the dimensions of a model, as its publisher gives them.
type Shape struct {
	Name      string
	Arch      string // general.architecture
	NLayer    int
	MTP       bool // a layer comes after those that predicts a token further on
	NEmbd     int
	NFF       int // of one expert where there are experts
	NFFShared int // of the expert that every token uses; 0: there is none
	NHead     int
	NHeadKV   int
	HeadDim   int
	NVocab    int
	NCtx      int
	NExpert   int // 0 for a dense model
	NUsed     int // experts that a token uses
	RopeTheta float32
	// RopeFactor scales the slow rotations as Llama 3.1 and 3.2 do, for a
	// model first trained on 8192 positions; 0 leaves them as they are.
	RopeFactor float64
	RMSEps     float32
	Tied       bool    // the embeddings are also the output matrix
	QKNorm     bool    // queries and keys are normalised by head
	Window     int     // positions that layers with a window see; 0: there are none
	YaRN       float64 // factor of a YaRN over NCtxOrig positions; 0: there is none
	NCtxOrig   int
	GPTOSS     bool // biases everywhere, a sink for each head
	NRot       int  // rotated dimensions of a head; 0: all
	Delta      *Delta
	Gemma      *Gemma
	Scan       *Scan
	RWKV       *RWKV
	Sight      *Sight // it is an encoder of pictures
	NTap       int    // of short convolutions
	// Pattern is the kind of each layer, where they differ and no rule says how: M for a state
	// space, C for a short convolution, * for attention, and E for a feed-forward, which then
	// the others do not have.
	Pattern  string
	ReLU2    bool    // the feed-forward and experts have no gate, and these a correction of the choice
	Scales   []Scale // of embeddings and the like
	Latent   *Latent
	NDense   int // first layers without experts, NFFDense wide
	NFFDense int
	Vocab    vocabulary
}

// A Latent has the dimensions of attention over latents. Its experts are weighed by sigmoids,
// with a correction of the choice.
type Latent struct {
	Rank, QueryRank int
	Plain, Rotated  int // channels of a query of a head
	Value           int
	Scale           float32 // of the weights of experts
}

// A Delta has the dimensions of the gated delta nets that three of four layers have; in
// the fourth, the queries of the attention come with a gate.
type Delta struct {
	NHead, NHeadKey int  // of values; of queries and keys
	Dim             int  // of any head
	NTap            int  // of the convolution
	Grouped         bool // the gates of value heads are one matrix
}

// A Scan has the dimensions of the selective state spaces that some layers have.
type Scan struct {
	NHead, NGroup  int // of the second kind
	HeadDim, State int
	NTap           int // of the convolution
	Rank           int // of the first kind, Mamba: of what the steps are made of. There is one head
}

func (s *Scan) inner() int { return s.NHead * s.HeadDim }

// conv returns the columns of the convolution.
func (s *Scan) conv() int {
	if s.Rank > 0 {
		return s.inner()
	}
	return s.inner() + 2*s.NGroup*s.State
}

// An RWKV has the dimensions of RWKV 7: of a head, and the ranks of what decays, rates, the share of
// the first layer's value and the gate of the result are made of.
type RWKV struct {
	HeadDim                  int
	Decay, Rate, Value, Gate int
}

// A Scale is a key of a factor, without the name of the architecture.
type Scale struct {
	Key   string
	Value float32
}

// The kinds of layers.
const (
	attentionLayer   = '*'
	scanLayer        = 'M'
	feedForwardLayer = 'E'
	deltaLayer       = 'D'
	latentLayer      = 'L'
	rwkvLayer        = 'R'
	convLayer        = 'C'
)

// kind returns the kind of layer i.
func (s *Shape) kind(i int) byte {
	switch {
	case s.Pattern != "":
		return s.Pattern[i]
	case s.Delta != nil && (i+1)%attentionEvery != 0:
		return deltaLayer
	case s.Latent != nil:
		return latentLayer
	case s.RWKV != nil:
		return rwkvLayer
	}
	return attentionLayer
}

// separate says whether a feed-forward is a layer of its own.
func (s *Shape) separate() bool {
	return strings.IndexByte(s.Pattern, feedForwardLayer) >= 0
}

// valueDim is the width of a value as it is kept.
func (s *Shape) valueDim() int {
	if s.Latent != nil {
		return s.Latent.Rank
	}
	return s.HeadDim
}

// attentionEvery is the layer that has attention where others have delta nets.
const attentionEvery = 4

// shapes are those that ParseShape knows. The tiny ones are no published models: they are for
// tests, and for trying the program without a download.
var shapes = []Shape{
	{
		Name: "llama-3.1-8b", Arch: "llama", NLayer: 32, NEmbd: 4096, NFF: 14336, NHead: 32, NHeadKV: 8, HeadDim: 128,
		NVocab: 128256, NCtx: 131072, RopeTheta: 500000, RopeFactor: 8, RMSEps: 1e-5, Vocab: llama3,
	},
	{
		Name: "llama-3.2-1b", Arch: "llama", NLayer: 16, NEmbd: 2048, NFF: 8192, NHead: 32, NHeadKV: 8, HeadDim: 64,
		NVocab: 128256, NCtx: 131072, RopeTheta: 500000, RopeFactor: 32, RMSEps: 1e-5, Tied: true, Vocab: llama3,
	},
	{
		Name: "llama-3.2-3b", Arch: "llama", NLayer: 28, NEmbd: 3072, NFF: 8192, NHead: 24, NHeadKV: 8, HeadDim: 128,
		NVocab: 128256, NCtx: 131072, RopeTheta: 500000, RopeFactor: 32, RMSEps: 1e-5, Tied: true, Vocab: llama3,
	},
	{
		Name: "qwen3-0.6b", Arch: "qwen3", NLayer: 28, NEmbd: 1024, NFF: 3072, NHead: 16, NHeadKV: 8, HeadDim: 128,
		NVocab: 151936, NCtx: 40960, RopeTheta: 1000000, RMSEps: 1e-6, Tied: true, QKNorm: true, Vocab: qwen2,
	},
	{
		Name: "qwen3-4b", Arch: "qwen3", NLayer: 36, NEmbd: 2560, NFF: 9728, NHead: 32, NHeadKV: 8, HeadDim: 128,
		NVocab: 151936, NCtx: 40960, RopeTheta: 1000000, RMSEps: 1e-6, Tied: true, QKNorm: true, Vocab: qwen2,
	},
	{
		Name: "mixtral-8x7b", Arch: "llama", NLayer: 32, NEmbd: 4096, NFF: 14336, NHead: 32, NHeadKV: 8, HeadDim: 128,
		NVocab: 32000, NCtx: 32768, NExpert: 8, NUsed: 2, RopeTheta: 1000000, RMSEps: 1e-5, Vocab: spm,
	},
	{
		// Stored as a llama, and so without its norms of queries and keys.
		Name: "olmoe-7b", Arch: "llama", NLayer: 16, NEmbd: 2048, NFF: 1024, NHead: 16, NHeadKV: 16, HeadDim: 128,
		NVocab: 50304, NCtx: 4096, NExpert: 64, NUsed: 8, RopeTheta: 10000, RMSEps: 1e-5, Vocab: llama3,
	},
	{
		Name: "gpt-oss-20b", Arch: "gpt-oss", NLayer: 24, NEmbd: 2880, NFF: 2880, NHead: 64, NHeadKV: 8, HeadDim: 64,
		NVocab: 201088, NCtx: 131072, NExpert: 32, NUsed: 4, RopeTheta: 150000, RMSEps: 1e-5, Window: 128, YaRN: 32, NCtxOrig: 4096,
		GPTOSS: true, Vocab: o200k,
	},
	{
		Name: "qwen3.6-35b-a3b", Arch: "qwen35moe", NLayer: 40, NEmbd: 2048, NFF: 512, NFFShared: 512, NHead: 16, NHeadKV: 2, HeadDim: 256,
		NVocab: 248320, NCtx: 262144, NExpert: 256, NUsed: 8, RopeTheta: 1e7, NRot: 64, RMSEps: 1e-6, QKNorm: true, Vocab: qwen35,
		Delta: &Delta{NHead: 32, NHeadKey: 16, Dim: 128, NTap: 4},
	},
	{
		Name: "qwen3.8-27b", Arch: "qwen35", NLayer: 64, NEmbd: 5120, NFF: 17408, NHead: 24, NHeadKV: 4, HeadDim: 256,
		NVocab: 248320, NCtx: 262144, RopeTheta: 1e7, NRot: 64, RMSEps: 1e-6, QKNorm: true, Vocab: qwen35,
		Delta: &Delta{NHead: 48, NHeadKey: 16, Dim: 128, NTap: 4},
	},
	{
		Name: "qwen3-next-80b-a3b", Arch: "qwen3next", NLayer: 48, NEmbd: 2048, NFF: 512, NFFShared: 512, NHead: 16, NHeadKV: 2, HeadDim: 256,
		NVocab: 151936, NCtx: 262144, NExpert: 512, NUsed: 10, RopeTheta: 1e7, NRot: 64, RMSEps: 1e-6, QKNorm: true, Vocab: qwen2,
		Delta: &Delta{NHead: 32, NHeadKey: 16, Dim: 128, NTap: 4, Grouped: true},
	},
	{
		Name: "gemma-4-26b-a4b", Arch: "gemma4", NLayer: 30, NEmbd: 2816, NFF: 704, NHead: 16, NHeadKV: 8, HeadDim: 256,
		NVocab: 262144, NCtx: 262144, NExpert: 128, NUsed: 8, RopeTheta: 1e6, RMSEps: 1e-6, Tied: true, Window: 1024, Vocab: gemmaMerges,
		Gemma: &Gemma{Every: 6, NHeadKV: 2, HeadDim: 512, KeysServe: true, NOwn: 30, NFF: 2112},
	},
	{
		Name: "gemma-4-e4b", Arch: "gemma4", NLayer: 42, NEmbd: 2560, NFF: 10240, NHead: 8, NHeadKV: 2, HeadDim: 256,
		NVocab: 262144, NCtx: 131072, RopeTheta: 1e6, RMSEps: 1e-6, Tied: true, Window: 512, Vocab: gemmaMerges,
		Gemma: &Gemma{Every: 6, NHeadKV: 2, HeadDim: 512, NOwn: 24, NPerLayer: 256},
	},
	{
		Name: "gemma-3n-e4b", Arch: "gemma3n", NLayer: 35, NEmbd: 2048, NFF: 16384, NHead: 8, NHeadKV: 2, HeadDim: 256,
		NVocab: 262400, NCtx: 32768, RopeTheta: 1e6, RMSEps: 1e-6, Tied: true, Window: 512, Vocab: gemmaScores,
		Gemma: &Gemma{Every: 5, NHeadKV: 2, HeadDim: 256, NOwn: 20, NPerLayer: 256, NFFSparse: 10, Streams: 4, LaurelRank: 64},
	},
	{
		Name: "lfm2-8b-a1b", Arch: "lfm2moe", NLayer: 24, NEmbd: 2048, NFF: 1792, NHead: 32, NHeadKV: 8, HeadDim: 64,
		NVocab: 65536, NCtx: 128000, NExpert: 32, NUsed: 4, RopeTheta: 1e6, RMSEps: 1e-5, Tied: true, QKNorm: true, Vocab: llama3,
		NTap: 3, NDense: 2, NFFDense: 7168, Pattern: "CC*CCC*CCC*CCC*CCC*CC*CC",
	},
	{
		Name: "granite-4-h-tiny", Arch: "granitehybrid", NLayer: 40, NEmbd: 1536, NFF: 512, NFFShared: 1024, NHead: 12, NHeadKV: 4, HeadDim: 128,
		NVocab: 100352, NCtx: 1 << 20, NExpert: 64, NUsed: 6, RopeTheta: 10000, RMSEps: 1e-5, Tied: true, Vocab: llama3,
		Scan:    &Scan{NHead: 48, NGroup: 1, HeadDim: 64, State: 128, NTap: 4},
		Pattern: strings.Repeat("MMMMM*MMMM", 4),
		Scales:  []Scale{{"attention.scale", 1. / 128}, {"embedding_scale", 12}, {"residual_scale", 0.22}, {"logit_scale", 6}},
	},
	{
		Name: "nemotron-3-nano", Arch: "nemotron_h_moe", NLayer: 52, NEmbd: 2688, NFF: 1856, NFFShared: 3712, NHead: 32, NHeadKV: 2, HeadDim: 128,
		NVocab: 131072, NCtx: 262144, NExpert: 128, NUsed: 6, RMSEps: 1e-5, ReLU2: true, Vocab: llama3,
		Scan:    &Scan{NHead: 64, NGroup: 8, HeadDim: 64, State: 128, NTap: 4},
		Pattern: "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
		Scales:  []Scale{{"expert_weights_scale", 2.5}},
	},
	{
		Name: "glm-4.7-flash", Arch: "deepseek2", NLayer: 47, NEmbd: 2048, NFF: 1536, NFFShared: 1536, NHead: 20, NHeadKV: 1, HeadDim: 576,
		NVocab: 154880, NCtx: 202752, NExpert: 64, NUsed: 4, RopeTheta: 1e6, NRot: 64, RMSEps: 1e-5, Vocab: glm4, NDense: 1, NFFDense: 10240,
		Latent: &Latent{Rank: 512, QueryRank: 768, Plain: 192, Rotated: 64, Value: 256, Scale: 1.8},
	},
	{
		Name: "rwkv7-2.9b", Arch: "rwkv7", NLayer: 32, NEmbd: 2560, NFF: 10240, NHead: 40, NHeadKV: 40, HeadDim: 64,
		NVocab: 65536, NCtx: 1 << 20, Vocab: worldBytes,
		RWKV: &RWKV{HeadDim: 64, Decay: 96, Rate: 96, Value: 64, Gate: 320},
	},
	{
		Name: "tiny-latent", Arch: "deepseek2", NLayer: 3, NEmbd: 256, NFF: 256, NFFShared: 256, NHead: 4, NHeadKV: 1, HeadDim: 288,
		NVocab: 2048, NCtx: 4096, NExpert: 8, NUsed: 2, RopeTheta: 10000, NRot: 32, RMSEps: 1e-5, Vocab: llama3, NDense: 1, NFFDense: 768,
		Latent: &Latent{Rank: 256, QueryRank: 128, Plain: 64, Rotated: 32, Value: 64, Scale: 1.8},
	},
	{
		Name: "tiny", Arch: "llama", NLayer: 4, NEmbd: 256, NFF: 768, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, RopeTheta: 10000, RMSEps: 1e-5, Vocab: llama3,
	},
	{
		Name: "tiny-hybrid", Arch: "granitehybrid", NLayer: 6, NEmbd: 256, NFF: 256, NFFShared: 256, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, NExpert: 8, NUsed: 3, RopeTheta: 10000, RMSEps: 1e-5, Tied: true, Vocab: llama3,
		Scan:    &Scan{NHead: 8, NGroup: 2, HeadDim: 64, State: 64, NTap: 4},
		Pattern: "MM*MM*",
	},
	{
		Name: "tiny-mamba", Arch: "mamba", NLayer: 4, NEmbd: 256, NHead: 4, NHeadKV: 4, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, RMSEps: 1e-5, Tied: true, Vocab: llama3,
		Scan:    &Scan{NHead: 1, HeadDim: 512, State: 16, NTap: 4, Rank: 32},
		Pattern: "MMMM",
	},
	{
		Name: "tiny-delta", Arch: "qwen3next", NLayer: 4, NEmbd: 256, NFF: 256, NFFShared: 256, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, NExpert: 8, NUsed: 3, RopeTheta: 1e7, NRot: 16, RMSEps: 1e-6, QKNorm: true, Vocab: llama3,
		Delta: &Delta{NHead: 4, NHeadKey: 2, Dim: 64, NTap: 4, Grouped: true},
	},
	{
		Name: "tiny-rwkv7", Arch: "rwkv7", NLayer: 4, NEmbd: 256, NFF: 1024, NHead: 4, NHeadKV: 4, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, Vocab: worldBytes,
		RWKV: &RWKV{HeadDim: 64, Decay: 64, Rate: 64, Value: 32, Gate: 128},
	},
	{
		Name: "tiny-gpt-oss", Arch: "gpt-oss", NLayer: 4, NEmbd: 256, NFF: 256, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, NExpert: 8, NUsed: 3, RopeTheta: 150000, RMSEps: 1e-5, Window: 8, YaRN: 32, NCtxOrig: 16,
		GPTOSS: true, Vocab: o200k,
	},
	{
		Name: "tiny-lfm2", Arch: "lfm2moe", NLayer: 6, NEmbd: 256, NFF: 256, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, NExpert: 8, NUsed: 3, RopeTheta: 1e6, RMSEps: 1e-5, Tied: true, QKNorm: true, Vocab: llama3,
		NTap: 3, NDense: 1, NFFDense: 512, Pattern: "CC*CC*",
	},
	{
		Name: "tiny-nemotron", Arch: "nemotron_h_moe", NLayer: 6, NEmbd: 256, NFF: 256, NFFShared: 512, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, NExpert: 8, NUsed: 3, RMSEps: 1e-5, ReLU2: true, Vocab: llama3,
		Scan:    &Scan{NHead: 8, NGroup: 2, HeadDim: 64, State: 64, NTap: 4},
		Pattern: "MEM*EE",
		Scales:  []Scale{{"expert_weights_scale", 2.5}},
	},
	{
		Name: "tiny-gemma4", Arch: "gemma4", NLayer: 8, NEmbd: 256, NFF: 128, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, NExpert: 8, NUsed: 3, RopeTheta: 1e6, RMSEps: 1e-6, Tied: true, Window: 8, Vocab: gemmaMerges,
		Gemma: &Gemma{Every: 3, NHeadKV: 1, HeadDim: 128, KeysServe: true, NOwn: 5, NPerLayer: 32, NFF: 512},
	},
	{
		Name: "tiny-gemma3n", Arch: "gemma3n", NLayer: 6, NEmbd: 256, NFF: 512, NHead: 4, NHeadKV: 2, HeadDim: 64,
		NVocab: 2048, NCtx: 4096, RopeTheta: 1e6, RMSEps: 1e-6, Tied: true, Window: 8, Vocab: gemmaScores,
		Gemma: &Gemma{Every: 2, NHeadKV: 2, HeadDim: 64, NOwn: 4, NPerLayer: 32, NFFSparse: 3, Streams: 4, LaurelRank: 64},
	},
	{ // for tests: an encoder of pictures with deepstack
		Name: "tiny-mmproj", Arch: "clip", NLayer: 2, NEmbd: 64, NFF: 128, NHead: 2, NHeadKV: 2, HeadDim: 32, RMSEps: 1e-6,
		Sight: &Sight{
			Kind: "qwen3vl_merger", Patch: 16, Side: 64, Merge: 2, Width: 64, Positions: 16, Fused: true, Films: true,
			Deep: []int{0},
		},
	},
	{ // the encoder of Qwen 3.5 4B, and of Qwen3-VL 2B and 4B but for their deepstack
		Name: "mmproj-qwen3.5-4b", Arch: "clip", NLayer: 24, NEmbd: 1024, NFF: 4096, NHead: 16, NHeadKV: 16, HeadDim: 64, RMSEps: 1e-6,
		Sight: &Sight{
			Kind: "qwen3vl_merger", Patch: 16, Side: 768, Merge: 2, Width: 2560, Positions: 48 * 48, Fused: true, Films: true,
		},
	},
	{
		Name: "mmproj-qwen3-vl-8b", Arch: "clip", NLayer: 27, NEmbd: 1152, NFF: 4304, NHead: 16, NHeadKV: 16, HeadDim: 72, RMSEps: 1e-6,
		Sight: &Sight{
			Kind: "qwen3vl_merger", Patch: 16, Side: 768, Merge: 2, Width: 4096, Positions: 48 * 48, Fused: true, Films: true,
			Deep: []int{8, 16, 24},
		},
	},
	{ // SigLIP, of all sizes of Gemma 3 that see
		Name: "mmproj-gemma-3-4b", Arch: "clip", NLayer: 27, NEmbd: 1152, NFF: 4304, NHead: 16, NHeadKV: 16, HeadDim: 72, RMSEps: 1e-6,
		Sight: &Sight{Kind: "gemma3", Patch: 14, Side: 896, Merge: 4, Width: 2560, Positions: 64 * 64},
	},
}

// Shapes returns the names of the shapes that ParseShape knows.
func Shapes() []string {
	var names []string
	for i := range shapes {
		names = append(names, shapes[i].Name)
	}
	return names
}

func findShape(name string) *Shape {
	for i := range shapes {
		if strings.EqualFold(name, shapes[i].Name) {
			return &shapes[i]
		}
	}
	return nil
}
