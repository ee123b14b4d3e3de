package ask

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// MaxPriority is the highest priority of a request.
const MaxPriority = 1000

// MaxSequences is the maximum number of sequences of a request.
const MaxSequences = 128

// Limits are the fields that bound the length, number and time of answers.
type Limits struct {
	MaxTokens int
	Stop      stopWords
	MaxTime   time.Duration
	Indent    int
	N         int
	cache     bool
	slot      int
	Priority  int
	Deadline  time.Duration
	Until     time.Time // the deadline, from when it is settled on; zero: none

	keep    int
	discard int
	Shift   bool // where the model's contexts are shifted

	maxPromptTime, cacheReuse Idle
}

func NewLimits(m *Model) Limits {
	l := Limits{MaxTokens: -1, MaxTime: -time.Millisecond, N: 1, cache: true, slot: -1, maxPromptTime: -1, keep: m.Keep,
		Shift: true}
	if m.MaxTokens > 0 {
		l.MaxTokens = m.MaxTokens
	}
	return l
}

func (l *Limits) Fields() []field.Field {
	return []field.Field{
		field.Setting("n_predict max_tokens max_completion_tokens", field.Integer(&l.MaxTokens, -1, math.MaxInt32),
			"Tokens to generate at most; -1 is as many as the context holds, or without an end where it is shifted, 0 "+
				"evaluates the prompt and ends."),
		field.Setting("stop", &l.Stop, "Texts at which the answer ends. They are not part of it."),
		field.Setting("t_max_predict_ms", field.Millis(&l.MaxTime, -1),
			"End so long after the first token, once the answer has a line break; 0 and -1 do not."),
		field.Setting("t_max_prompt_ms", &l.maxPromptTime, "Accepted for its senders' sake; without effect."),
		field.Setting("n_indent", field.Integer(&l.Indent, 0, 1000),
			"End where the text of a line but the first begins with fewer spaces and tabs before it; an empty line has none. "+
				"0 is no bound."),
		field.Setting("n_keep", field.Integer(&l.keep, -1, math.MaxInt32),
			"First tokens of the prompt that stay when a full context is shifted, beside BOS; -1 is all. Without "+
				"`--context-shift` none is."),
		field.Setting("n_discard", field.Integer(&l.discard, 0, math.MaxInt32),
			"Tokens that go then; 0 is half of those that do not stay."),
		field.Setting("n n_cmpl", field.Integer(&l.N, 1, MaxSequences),
			"Answers to each prompt. Seeds count up from the one given."),
		field.Setting("cache_prompt", field.Boolean(&l.cache),
			"Use what the cache has of the prompt, and leave it there for others."),
		field.Setting("n_cache_reuse", &l.cacheReuse, "The cache finds what it can without being told; without effect."),
		field.Setting("id_slot", field.Integer(&l.slot, -1, math.MaxInt32),
			"Run under this number if it is free; -1 is any."),
		field.Setting("priority", field.Integer(&l.Priority, -MaxPriority, MaxPriority), "Higher ones go first."),
		field.Setting("deadline_ms", field.Millis(&l.Deadline, 0),
			"Give up after so long, or at once where it cannot be kept; 0 is never. The header X-Request-Timeout says it "+
				"in seconds."),
	}
}

func (l *Limits) settle(m *Model, h http.Header) error {
	if n := m.Slots(); l.slot >= n {
		return reply.Invalid("id_slot", "%d, want -1 to %d", l.slot, n-1)
	}
	if err := l.Timeout(h); err != nil {
		return err
	}
	if l.Deadline > 0 {
		l.Until = time.Now().Add(l.Deadline)
	}
	return nil
}

// Timeout reads the header in which proxies pass on their timeout, in seconds or with a
// unit. The sooner of it and the field applies.
func (l *Limits) Timeout(h http.Header) error {
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
		return reply.Invalid(name, "%s, want seconds such as 30 or a duration such as 500ms", field.Quote(given))
	}
	if l.Deadline == 0 || d < l.Deadline {
		l.Deadline = d
	}
	return nil
}
