package server

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
)

// maxProbs is how many alternatives a token can come with, maxSequences how
// many texts can come of a request.
const (
	maxProbs     = 1000
	maxSequences = 128
)

// A query is a request as it was read: its fields, and defaults for those that
// it leaves out.
type query struct {
	model string // the client's name for it, which is not looked at

	// what to continue
	prompt   prompts
	suffix   string
	echo     bool
	messages conversation
	template templateValues
	effort   string
	generate option // add_generation_prompt
	resume   option // continue_final_message
	thinking string // reasoning_format
	prefix   string // input_prefix
	extra    extraFiles

	// how
	sampling  sample.Params
	seed      int64
	samplers  samplerList
	bias      biases
	ignoreEOS bool
	maxTokens int
	maxTime   time.Duration
	stop      stopWords
	n         int
	bestOf    int

	// where and when
	cache    bool
	slot     int
	priority int
	deadline time.Duration

	// what comes back
	stream       bool
	streamOpts   streamOptions
	probs        int  // n_probs, or logprobs of completions
	logprobs     bool // of chats
	topLogprobs  int
	returnTokens bool
	progress     bool
	timings      bool
	fields       fieldList
	ping         int // seconds; -1: none, 0: the server's

	// of other endpoints
	content      string
	addSpecial   bool
	parseSpecial bool
	withPieces   bool
	tokens       tokenList
	filename     string
}

// randomSeed is how llama-server spells it where a seed cannot be negative.
const randomSeed = 1<<32 - 1

// query returns the defaults of a model.
func (m *Model) query() *query {
	q := &query{
		sampling: m.Sampling, seed: -1, maxTokens: -1, n: 1, bestOf: 1, probs: -1,
		cache: true, slot: -1, generate: option{on: true}, parseSpecial: true, thinking: "auto",
	}
	if m.Seed != nil {
		q.seed = int64(*m.Seed)
	}
	if m.MaxTokens > 0 {
		q.maxTokens = m.MaxTokens
	}
	if m.ReasoningFormat != "" {
		q.thinking = m.ReasoningFormat
	}
	m.Defaults.fill(q)
	return q
}

// resolve settles what fields mean together and for this model.
func (q *query) resolve(m *Model, on endpoint, h http.Header) error {
	q.samplers.apply(&q.sampling)
	if err := q.bias.known(m); err != nil {
		return err
	}
	if err := q.sampling.Validate(); err != nil {
		return bad("%v", err)
	}
	if q.seed == -1 || q.seed == randomSeed {
		q.seed = int64(rand.Uint32N(randomSeed)) // what can be asked for again
	}
	q.sampling.Seed = uint64(q.seed)
	if on == onChat {
		switch {
		case q.logprobs:
			q.probs = q.topLogprobs
		case q.topLogprobs > 0:
			return invalid("top_logprobs", "%d without logprobs, want logprobs to be true", q.topLogprobs)
		}
	}
	if q.slot >= m.slots() {
		return invalid("id_slot", "%d, want -1 to %d", q.slot, m.slots()-1)
	}
	if q.bestOf > 1 && q.bestOf != q.n {
		return invalid("best_of", "%d, want the same as n: choosing among more is not supported", q.bestOf)
	}
	if !q.stream && q.streamOpts.given {
		return invalid("stream_options", "given without stream, want stream to be true")
	}
	return q.timeout(h)
}

// timeout reads the header by which proxies pass on how long they will wait,
// in seconds or with a unit. The sooner of it and the field counts.
func (q *query) timeout(h http.Header) error {
	const name = "X-Request-Timeout"
	given := h.Get(name)
	if given == "" {
		return nil
	}
	d, err := time.ParseDuration(given)
	if f, ferr := strconv.ParseFloat(given, 64); ferr == nil && f > 0 {
		d, err = time.Duration(min(f, 1e9)*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return invalid(name, "%s, want seconds such as 30 or a duration such as 500ms", quote(given))
	}
	if q.deadline == 0 || d < q.deadline {
		q.deadline = d
	}
	return nil
}

// request is what the engine is asked, for one of the texts wanted.
func (q *query) request(m *Model, prompt []int32, i int) *engine.Request {
	r := &engine.Request{
		Params: engine.Params{
			Prompt: prompt, MaxTokens: q.maxTokens, Sampling: q.sampling, Bias: q.bias.of(m, q.ignoreEOS), TopLogprobs: q.probs,
		},
		NoCache: !q.cache, Slot: q.slot, Priority: q.priority,
	}
	if !q.ignoreEOS {
		r.Stop = m.Tokenizer.IsEOG
	}
	r.Sampling.Seed += uint64(i)
	if q.deadline > 0 {
		r.Deadline = time.Now().Add(q.deadline)
	}
	return r
}

// settings is the query as /props, /slots and answers show it.
func (q *query) settings() map[string]any {
	shown := map[string]any{}
	for _, f := range fields(q) {
		if f.on&onNative == 0 || f.input {
			continue
		}
		for _, name := range f.names {
			shown[name] = f.to.value()
		}
	}
	if q.seed == -1 {
		shown["seed"] = randomSeed
	}
	return shown
}
