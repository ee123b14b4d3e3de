package answer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Endpoints that read texts and generate nothing: vectors, scores, probabilities of choices.

// MaxInputs is how many texts a request may have.
const MaxInputs = 2048

// Reads are the fields common to these endpoints.
type Reads struct {
	Model string
	ask.Limits
}

func NewReads(m *ask.Model) Reads { return Reads{Limits: ask.NewLimits(m)} }

func (r *Reads) Fields() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&r.Model),
			"Which model, by a name that /v1/models has. A server of one answers to any."),
		field.Setting("priority", field.Integer(&r.Priority, -1000, 1000), "Higher ones go first."),
		field.Setting("deadline_ms", field.Millis(&r.Deadline, 0),
			"Give up after so long, or at once where it cannot be kept; 0 is never. The header X-Request-Timeout says it "+
				"in seconds."),
	}
}

// A TokenUsage is the usage of a request that generates nothing.
type TokenUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// A ReadText is a text for a Reader. NoCache is for those that nothing else will begin like.
type ReadText struct {
	Ids     []int32
	Second  int // where the second text of a pair begins; 0: it is one text
	Reader  engine.Reader
	Media   []engine.Medium
	noCache bool
}

// Asked returns what all requests to the engine have that are made for req: whose they are, and how urgent. The first call
// sets o.Until, which is the deadline of all that follow.
func (req *Request) Asked(o *Reads) (r engine.Request, err error) {
	if err := o.Timeout(req.HTTP.Request.Header); err != nil {
		return r, err
	}
	c := &req.Caller
	r = engine.Request{Namespace: c.Space, Adapters: req.Model.Usual(req.Adapter), Slot: -1, Flow: c.Flow, Weight: c.Weight,
		Origin: req.Context()}
	if r.Priority, err = c.priority(o.Priority); err != nil {
		return r, err
	}
	if o.Deadline > 0 && o.Until.IsZero() {
		o.Until = time.Now().Add(o.Deadline)
	}
	r.Deadline = o.Until
	return r, nil
}

// Evaluate evaluates texts until all are, an error ends one, or the client is gone. It returns how many
// tokens they have, and how many of those the cache had.
func (req *Request) Evaluate(o *Reads, texts []ReadText) (prompt, cached int, err error) {
	m := req.Model
	asked, err := req.Asked(o)
	if err != nil {
		return 0, 0, err
	}
	tokens := 0
	for i := range texts {
		tokens += len(texts[i].Ids)
	}
	if err := req.Input(tokens, false); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	prompt, cached, err = reading.Texts(ctx, m.Engine.Submit, reading.Window(m.Slots(), m.Encoder), len(texts),
		func(i int) (*engine.Request, error) {
			t := &texts[i]
			r := asked
			r.Params = generate.Params{Prompt: t.Ids, Sampling: m.Sampling, TopLogprobs: -1}
			r.Reader, r.Second, r.Media, r.NoCache = t.Reader, t.Second, t.Media, t.noCache
			return &r, nil
		})
	var one *reading.TextError
	switch {
	case errors.As(err, &one):
		return 0, 0, WrapAPI(len(texts) > 1, one.Index, one.Err)
	case ctx.Err() != nil && err != nil:
		return 0, 0, reply.ErrGone
	case err != nil:
		return 0, 0, err
	}
	req.Run.Cached(cached)
	req.host.Note(req.HTTP, map[string]any{"model": m.Name, "prompt_tokens": prompt, "cached_tokens": cached})
	return prompt, cached, nil
}

// WrapAPI says which of several texts is too long.
func WrapAPI(several bool, i int, err error) error {
	if long := (*engine.TooLongError)(nil); several && errors.As(err, &long) {
		return &reply.Error{
			Status: http.StatusBadRequest,
			Message: fmt.Sprintf("element %d has %s tokens, which exceeds the available context size of %d tokens: too large, "+
				"want a shorter one, or a server with a larger --ctx-size", i, long.Count(), long.Ctx),
			Extra: map[string]any{"type": "exceed_context_size_error", "n_prompt_tokens": long.Prompt, "n_ctx": long.Ctx},
		}
	}
	return err
}

// numberBytes is the memory of a number of an answer: as it is, and encoded.
const numberBytes = slack * (4 + 24)

// Embed makes the vectors of texts. The memory of the answer is reserved until release is called.
func (req *Request) Embed(
	o *Reads, pooling nn.Pooling, read []engine.Text,
) (all []*engine.Embedding, used TokenUsage, release func(), err error) {
	m := req.Model
	texts, numbers := make([]ReadText, len(read)), 0
	for i, t := range read {
		e, err := m.Engine.Embedding(len(t.IDs), pooling)
		if err != nil {
			return nil, used, nil, reply.Unsupported("%v", err)
		}
		all = append(all, e)
		_, from, to := e.Reads()
		texts[i] = ReadText{t.IDs, t.Second, e, t.Media, from == 0}
		switch pooling {
		case nn.PoolNone:
			numbers += (to - from) * max(m.Info.NEmbd, m.VectorWidth())
		case nn.PoolTokens:
			numbers += (to - from) * m.Classifier.NScore
		default:
			numbers += max(m.Info.NEmbd, m.VectorWidth())
		}
	}
	release, err = holdNumbers(m, numbers)
	if err != nil {
		return nil, used, nil, err
	}
	prompt, _, err := req.Evaluate(o, texts)
	if err != nil {
		release()
		return nil, used, nil, err
	}
	for i, e := range all {
		if err := e.Err(); err != nil {
			release()
			return nil, used, nil, Overflow(fmt.Errorf("element %d: %w", i, err))
		}
	}
	return all, TokenUsage{prompt, prompt}, release, nil
}

// Overflow is engine.ErrOverflow as clients are told: it is not their fault, and says what is.
func Overflow(err error) error {
	return &reply.Error{Status: http.StatusInternalServerError, Message: err.Error()}
}

// holdNumbers reserves the memory of an answer of n numbers.
func holdNumbers(m *ask.Model, n int) (release func(), err error) {
	if m.Memory == nil {
		return func() {}, nil
	}
	need := uint64(requestBytes) + uint64(n)*numberBytes
	r, err := m.Memory.Reserve(answersPurpose, need)
	if err != nil {
		return nil, &reply.Error{
			Status: http.StatusTooManyRequests, Retry: retryMemory,
			Message: fmt.Sprintf("the answer may take %s of memory, and %s are free now; ask for less, or try again later",
				mem.FormatBytes(need), mem.FormatBytes(m.Memory.Free())),
		}
	}
	return r.Release, nil
}

// A TokenStore checks and reserves the tokens of a request that makes more of them than its
// body has: those of a text that is in front of several others.
type TokenStore struct {
	m      *ask.Model
	taken  *mem.Reservation // nil: there is no budget, or nothing yet
	bytes  uint64
	tokens int
}

// maxReadTokens is how many tokens the texts of a request may have together: as many as
// maxInputs of 8192.
const maxReadTokens = 1 << 24

// TokenStore returns the store of a request, whose texts are kept as long.
func (req *Request) TokenStore() *TokenStore {
	return &TokenStore{m: req.Model, bytes: slack * uint64(len(req.Body))}
}

// Add refuses tokens that are more than the context has, or too many with those before, or that
// there is no memory for.
func (s *TokenStore) Add(ids []int32) error {
	if len(ids) > s.m.Ctx {
		return &engine.TooLongError{Prompt: len(ids), Ctx: s.m.Ctx}
	}
	if s.tokens += len(ids); s.tokens > maxReadTokens {
		return reply.Bad("the texts have more than %d tokens together, a prompt or a query counting with each that follows "+
			"it, want at most so many", maxReadTokens)
	}
	if s.m.Memory == nil {
		return nil
	}
	s.bytes += 4 * uint64(cap(ids))
	var err error
	if s.taken == nil {
		s.taken, err = s.m.Memory.Reserve(answersPurpose, s.bytes)
	} else {
		err = s.taken.Resize(s.bytes)
	}
	if err != nil {
		return &reply.Error{
			Status: http.StatusTooManyRequests, Retry: retryMemory,
			Message: fmt.Sprintf("the tokens take %s of memory and more, and %s are free now; ask for less, or try again later",
				mem.FormatBytes(s.bytes), mem.FormatBytes(s.m.Memory.Free())),
		}
	}
	return nil
}

func (s *TokenStore) Release() {
	if s.taken != nil {
		s.taken.Release()
	}
}

// Sigmoid makes a number between 0 and 1 of a score.
func Sigmoid(x float64) float64 { return 1 / (1 + exactmath.Pow(math.E, -x)) }
