package openai

import "github.com/quern-llm/quern/go/server/answer"

// An envelope holds the fields common to all responses and chunks in OpenAI's format.
type envelope struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
}

func envelopeOf(g *answer.Generation) envelope {
	return envelope{ID: g.ID, Created: g.Created, Model: g.Name, Fingerprint: g.Model.Fingerprint}
}

// A tail holds their optional last fields.
type tail struct {
	Usage    *usage                 `json:"usage,omitzero"`
	Timings  *answer.Timings        `json:"timings,omitzero"`
	Progress *answer.PromptProgress `json:"prompt_progress,omitzero"`
	Verbose  any                    `json:"__verbose,omitzero"` // the answer in llama-server's format
}

// tailOf returns the last fields of a whole answer.
func tailOf(g *answer.Generation, answers []answer.Answer) tail {
	t := totalOf(g)
	if a := &answers[0]; g.Opts.Verbose {
		t.Verbose = g.Native(a.Seq, a.Ending, a.Usage, a.Blocks.Join(answer.TextBlock), a.Tokens)
	}
	return t
}

// lastOf returns the last fields of a choice in a stream.
func lastOf(g *answer.Generation, e answer.Event) tail {
	t := tail{Timings: e.Timings()}
	if g.Opts.Verbose {
		t.Verbose = g.Native(e.Seq, *e.End, e.Usage, e.Piece.Content(), e.Piece.Tokens)
	}
	return t
}

// totalOf returns the usage of the whole request.
func totalOf(g *answer.Generation) tail {
	return tail{Usage: usageOf(g.Used), Timings: answer.TimingsOf(g.First)}
}

// progressOf returns how far the prompt is evaluated.
func progressOf(g *answer.Generation, e answer.Event) tail {
	t := tail{Progress: e.Progress.JSON()}
	if g.Opts.Timings {
		t.Timings = e.Timings()
	}
	return t
}

// usage is the token counts of a request, in OpenAI's format.
type usage struct {
	PromptTokens     int               `json:"prompt_tokens"`
	CompletionTokens int               `json:"completion_tokens"`
	TotalTokens      int               `json:"total_tokens"`
	Details          usageDetails      `json:"prompt_tokens_details"`
	Completion       completionDetails `json:"completion_tokens_details"`
}

// completionDetails counts the tokens of reasoning, with the marks around it.
type completionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
	ImageTokens  int `json:"image_tokens,omitzero"`
	AudioTokens  int `json:"audio_tokens,omitzero"`
}

func usageOf(u answer.Used) *usage {
	return &usage{u.Prompt, u.Generated, u.Prompt + u.Generated, usageDetails{u.Cached, u.Pictures, u.Sounds},
		completionDetails{u.Thought}}
}

// finishReason is OpenAI's finish_reason.
func finishReason(e *answer.Ending) string {
	if e.Stop == answer.StopLimit {
		return "length"
	}
	return "stop"
}
