package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
)

// A generation is a request that runs: its sequences, and what they yield.
type generation struct {
	id      string
	created int64
	model   *Model
	query   *query
	prompts [][]int32 // tokens, one for each group of query.n sequences
	echo    []string  // text to begin the answers to each prompt with
	seqs    []*sequence
	tickets []Ticket
	box     *mailbox
	forget  func()
	used    usage // by those that have ended
}

// A source is what a generation begins with.
type source struct {
	prompts [][]int32
	echo    []string     // nil: none
	chat    *chat.Prompt // nil: the request is no chat
}

// start submits a request's sequences. All of them run, or none.
func (s *Server) start(c *gin.Context, m *Model, q *query, prefix string, src source) (*generation, error) {
	if n := len(src.prompts) * q.n; n > maxSequences {
		return nil, invalid("n", "%d answers to each of %d prompts, want %d in all at most", q.n, len(src.prompts), maxSequences)
	}
	g := &generation{
		id: prefix + newID(), created: time.Now().Unix(), model: m, query: q,
		prompts: src.prompts, echo: src.echo, box: newMailbox(),
	}
	flow, weight := s.c.Flow(c)
	for _, prompt := range src.prompts {
		for i := range q.n {
			seq := &sequence{
				index: len(g.seqs), box: g.box, maxTime: q.maxTime,
				write: q.writer(m, src.chat),
			}
			r := q.request(m, prompt, i)
			r.Flow, r.Weight, r.Origin, r.Sink = flow, weight, c.Request.Context(), seq
			ticket, err := m.Engine.Submit(r)
			if err != nil {
				g.cancel()
				return nil, err
			}
			g.seqs = append(g.seqs, seq)
			g.tickets = append(g.tickets, ticket)
		}
	}
	g.forget = s.running.add(g)
	c.Header("X-Completion-Id", g.id)
	return g, nil
}

// newID is a name that nobody can guess: who knows it may cancel what has it.
func newID() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (g *generation) cancel() {
	for _, t := range g.tickets {
		t.Cancel()
	}
}

// note is what the log says of a generation. There is no text in it.
func (g *generation) note() map[string]any {
	return map[string]any{
		"completion": g.id, "prompt_tokens": g.used.PromptTokens,
		"cached_tokens": g.used.Details.CachedTokens, "completion_tokens": g.used.CompletionTokens,
	}
}

// errGone ends a request whose client does not listen any more.
var errGone = errors.New("the client has gone")

// each hands over events as they come, until all sequences have ended. Where
// nothing comes for a while, it hands over none. If ctx ends first, or f fails,
// the sequences are cancelled.
func (g *generation) each(ctx context.Context, quiet time.Duration, f func([]event) error) error {
	defer g.forget()
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	var silence <-chan time.Time
	if quiet > 0 {
		silence = timer.C
	}
	for left := len(g.seqs); left > 0; {
		var events []event
		select {
		case <-ctx.Done():
			g.cancel()
			return errGone
		case <-silence:
		case <-g.box.ready:
			if events = g.box.fetch(); len(events) == 0 {
				continue
			}
		}
		if err := f(events); err != nil {
			g.cancel()
			return errGone
		}
		for _, e := range events {
			if e.end == nil {
				continue
			}
			left--
			g.used.add(g, e.seq, e.usage)
			if e.end.err != nil { // of one, which ends all
				g.cancel()
				return e.end.err
			}
		}
		if quiet > 0 {
			timer.Reset(quiet)
		}
	}
	return nil
}

// An answer is what a sequence yielded, whole.
type answer struct {
	seq                *sequence
	content, reasoning strings.Builder
	tokens             []engine.Token
	usage              engine.Usage
	ending
}

// collect waits for the sequences to end.
func (g *generation) collect(ctx context.Context) ([]answer, error) {
	answers := make([]answer, len(g.seqs))
	err := g.each(ctx, 0, func(events []event) error {
		for _, e := range events {
			a := &answers[e.seq.index]
			a.seq = e.seq
			for _, d := range e.piece.deltas {
				a.content.WriteString(d.Content)
				a.reasoning.WriteString(d.Reasoning)
			}
			a.tokens = append(a.tokens, e.piece.tokens...)
			a.usage = e.usage
			if e.end != nil {
				a.ending = *e.end
			}
		}
		return nil
	})
	return answers, err
}

// A registry knows the generations that run, by their ids and by the engine's
// numbers.
type registry struct {
	mu   sync.Mutex
	byID map[string]*generation
	by   map[uint64]*generation
}

func newRegistry() *registry {
	return &registry{byID: map[string]*generation{}, by: map[uint64]*generation{}}
}

// add returns what removes g again.
func (r *registry) add(g *generation) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[g.id] = g
	for _, t := range g.tickets {
		r.by[t.ID()] = g
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byID, g.id)
		for _, t := range g.tickets {
			delete(r.by, t.ID())
		}
	}
}

// generation returns the one that has an id, or nil.
func (r *registry) generation(id string) *generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// query returns the one that the engine runs under a number, or nil.
func (r *registry) query(ticket uint64) *query {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.by[ticket]; g != nil {
		return g.query
	}
	return nil
}

// cancelled is the answer to who has ended a request.
type cancelled struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Cancelled bool   `json:"cancelled"`
}

// cancelRunning ends a request that runs, by its id.
func (s *Server) cancelRunning(c *gin.Context, _ *Model) error {
	id := c.Param("id")
	g := s.running.generation(id)
	if g == nil {
		return &apiError{status: http.StatusNotFound, message: "no request with the id " + quote(id) + " runs"}
	}
	g.cancel()
	reply(c, http.StatusOK, cancelled{id, "completion.cancelled", true})
	return nil
}
