package server

// An envelope holds the fields common to all responses and chunks in OpenAI's format.
type envelope struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
}

func (s *Server) envelope(g *generation) envelope {
	return envelope{ID: g.id, Created: g.created, Model: g.name, Fingerprint: g.model.Fingerprint}
}

// A tail holds their optional last fields.
type tail struct {
	Usage    *usage          `json:"usage,omitzero"`
	Timings  *timings        `json:"timings,omitzero"`
	Progress *promptProgress `json:"prompt_progress,omitzero"`
	Verbose  any             `json:"__verbose,omitzero"` // the answer in llama-server's format
}

// tail returns the last fields of a whole answer.
func (g *generation) tail(answers []answer) tail {
	t := g.total()
	if a := &answers[0]; g.opts.Verbose {
		t.Verbose = g.native(a.seq, a.ending, a.usage, a.blocks.join(textBlock), a.tokens)
	}
	return t
}

// last returns the last fields of a choice in a stream.
func (g *generation) last(e event) tail {
	t := tail{Timings: e.timings()}
	if g.opts.Verbose {
		t.Verbose = g.native(e.seq, *e.end, e.usage, e.piece.content(), e.piece.tokens)
	}
	return t
}

// total returns the usage of the whole request.
func (g *generation) total() tail { return tail{Usage: &g.used, Timings: timingsOf(g.first)} }

// progress returns how far the prompt is evaluated.
func (g *generation) progress(e event) tail {
	t := tail{Progress: e.progress.json()}
	if g.opts.Timings {
		t.Timings = e.timings()
	}
	return t
}
