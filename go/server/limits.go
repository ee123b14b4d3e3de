package server

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// maxPriority is the highest priority of a request.
const maxPriority = 1000

// maxSequences is the maximum number of sequences of a request.
const maxSequences = 128

// limits are the fields that bound the length, number and time of answers.
type limits struct {
	maxTokens int
	stop      stopWords
	maxTime   time.Duration
	indent    int
	n         int
	cache     bool
	slot      int
	priority  int
	deadline  time.Duration

	keep    int
	discard int
	shift   bool // where the model's contexts are shifted

	maxPromptTime, cacheReuse idle
}

func newLimits(m *Model) limits {
	l := limits{maxTokens: -1, maxTime: -time.Millisecond, n: 1, cache: true, slot: -1, maxPromptTime: -1, keep: m.Keep, shift: true}
	if m.MaxTokens > 0 {
		l.maxTokens = m.MaxTokens
	}
	return l
}

func (l *limits) Fields() []field.Field {
	return []field.Field{
		field.Setting("n_predict max_tokens max_completion_tokens", field.Integer(&l.maxTokens, -1, math.MaxInt32), "Tokens to generate at most; -1 is as many as the context holds, or without an end where it is shifted, 0 evaluates the prompt and ends."),
		field.Setting("stop", &l.stop, "Texts at which the answer ends. They are not part of it."),
		field.Setting("t_max_predict_ms", field.Millis(&l.maxTime, -1), "End so long after the first token, once the answer has a line break; 0 and -1 do not."),
		field.Setting("t_max_prompt_ms", &l.maxPromptTime, "Accepted for its senders' sake; without effect."),
		field.Setting("n_indent", field.Integer(&l.indent, 0, 1000), "End where the text of a line but the first begins with fewer spaces and tabs before it; an empty line has none. 0 is no bound."),
		field.Setting("n_keep", field.Integer(&l.keep, -1, math.MaxInt32), "First tokens of the prompt that stay when a full context is shifted, beside BOS; -1 is all. Without `--context-shift` none is."),
		field.Setting("n_discard", field.Integer(&l.discard, 0, math.MaxInt32), "Tokens that go then; 0 is half of those that do not stay."),
		field.Setting("n n_cmpl", field.Integer(&l.n, 1, maxSequences), "Answers to each prompt. Seeds count up from the one given."),
		field.Setting("cache_prompt", field.Boolean(&l.cache), "Use what the cache has of the prompt, and leave it there for others."),
		field.Setting("n_cache_reuse", &l.cacheReuse, "The cache finds what it can without being told; without effect."),
		field.Setting("id_slot", field.Integer(&l.slot, -1, math.MaxInt32), "Run under this number if it is free; -1 is any."),
		field.Setting("priority", field.Integer(&l.priority, -maxPriority, maxPriority), "Higher ones go first."),
		field.Setting("deadline_ms", field.Millis(&l.deadline, 0), "Give up after so long, or at once where it cannot be kept; 0 is never. The header X-Request-Timeout says it in seconds."),
	}
}

func (l *limits) settle(m *Model, h http.Header) error {
	if n := m.slots(); l.slot >= n {
		return reply.Invalid("id_slot", "%d, want -1 to %d", l.slot, n-1)
	}
	return l.timeout(h)
}

// timeout reads the header in which proxies pass on their timeout, in seconds or with a
// unit. The sooner of it and the field applies.
func (l *limits) timeout(h http.Header) error {
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
	if l.deadline == 0 || d < l.deadline {
		l.deadline = d
	}
	return nil
}
