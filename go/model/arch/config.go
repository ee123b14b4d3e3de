package arch

// Config is the sizes and constants of a model.
type Config struct {
	Arch string // general.architecture
	Name string // general.name; may be empty

	NVocab  int // rows of the embedding
	NCtx    int // positions that the model was trained for
	NEmbd   int // residual width
	NFF     int // feed-forward width
	NLayer  int
	NHead   int
	NHeadKV int
	HeadDim int
	RMSEps  float32

	NExpert     int // 0: the feed-forward part is dense
	NExpertUsed int // by each token
	NFFExpert   int // feed-forward width of an expert

	NRot      int // rotated dimensions of a head
	RopeTheta float64
	Rope      RopeScaling
}

// RopeScaling says how the rotations are stretched beyond the positions that
// the model was first trained for.
type RopeScaling struct {
	Type   string  // "none", "linear" or "yarn"
	Factor float64 // by which the positions are compressed

	// Of yarn.
	NCtxOrig           int
	ExtFactor          float64
	AttnFactor         float64
	BetaFast, BetaSlow float64
}
