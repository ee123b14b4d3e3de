package answer

import (
	"time"

	"github.com/quern-llm/quern/go/engine"
)

// Timings are in llama-server's format.
type Timings struct {
	CacheN             int     `json:"cache_n"`
	PromptN            int     `json:"prompt_n"`
	PromptMS           float64 `json:"prompt_ms"`
	PromptPerTokenMS   float64 `json:"prompt_per_token_ms"`
	PromptPerSecond    float64 `json:"prompt_per_second"`
	PredictedN         int     `json:"predicted_n"`
	PredictedMS        float64 `json:"predicted_ms"`
	PredictedPerToken  float64 `json:"predicted_per_token_ms"`
	PredictedPerSecond float64 `json:"predicted_per_second"`
	DraftN             uint64  `json:"draft_n,omitzero"` // draft tokens that were verified
	DraftAccepted      *uint64 `json:"draft_n_accepted,omitzero"`
}

func TimingsOf(u engine.Usage) *Timings {
	t := &Timings{CacheN: u.CachedTokens, PromptN: u.PromptTokens - u.CachedTokens, PredictedN: u.Generated}
	t.PromptMS, t.PromptPerTokenMS, t.PromptPerSecond = speed(u.Prefill, t.PromptN)
	// The first token comes from evaluating the prompt: decoding made the others.
	t.PredictedMS, t.PredictedPerToken, t.PredictedPerSecond = speed(u.Decode, max(u.Generated-1, 0))
	if guessed, right := u.Drafted.Total(); guessed > 0 {
		t.DraftN, t.DraftAccepted = guessed, &right
	}
	return t
}

// Timings are those of the sequence so far.
func (e *Event) Timings() *Timings {
	if e.Progress == nil {
		return TimingsOf(e.Usage)
	}
	u := e.Usage
	u.PromptTokens, u.Prefill = e.Progress.Done, e.Progress.took
	return TimingsOf(u)
}

// speed returns how long n items took, the time of each, and the rate per second; 0
// where nothing was measured.
func speed(took time.Duration, n int) (ms, each, perSecond float64) {
	ms = float64(took) / float64(time.Millisecond)
	if n > 0 && took > 0 {
		each, perSecond = ms/float64(n), float64(n)/took.Seconds()
	}
	return ms, each, perSecond
}

// PromptProgress is how far a prompt is evaluated.
type PromptProgress struct {
	Total     int   `json:"total"`
	Cache     int   `json:"cache"`
	Processed int   `json:"processed"`
	TimeMS    int64 `json:"time_ms"`
}

func (p *progress) JSON() *PromptProgress {
	return &PromptProgress{p.Total, p.Cached, p.Done, p.took.Milliseconds()}
}
