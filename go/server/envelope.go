package server

// An envelope is what all answers and chunks of OpenAI's form begin with.
type envelope struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
}

func (s *Server) envelope(g *generation) envelope {
	return envelope{ID: g.id, Created: g.created, Model: g.model.Name, Fingerprint: g.model.Fingerprint}
}

// A tail is what they may end with.
type tail struct {
	Usage    *usage          `json:"usage,omitzero"`
	Timings  *timings        `json:"timings,omitzero"`
	Progress *promptProgress `json:"prompt_progress,omitzero"`
	Verbose  any             `json:"__verbose,omitzero"` // llama-server's form of the answer
}

// tail ends an answer.
func (g *generation) tail(answers []answer) tail {
	t := g.total()
	if a := &answers[0]; g.opts.verbose {
		t.Verbose = g.native(a.seq, a.ending, a.usage, a.content.String(), a.tokens)
	}
	return t
}

// last ends a choice of a stream.
func (g *generation) last(e event) tail {
	t := tail{Timings: e.timings()}
	if g.opts.verbose {
		t.Verbose = g.native(e.seq, *e.end, e.usage, e.piece.content(), e.piece.tokens)
	}
	return t
}

// total is what the whole request took.
func (g *generation) total() tail { return tail{Usage: &g.used, Timings: timingsOf(g.first)} }

// progress is how far the prompt is evaluated.
func (g *generation) progress(e event) tail {
	t := tail{Progress: e.progress.json()}
	if g.opts.timings {
		t.Timings = e.timings()
	}
	return t
}
