package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// The log of a request has the latest outcome of its sequences, the longest times, and the rate of the tokens after the
// first of each.
func TestTally(t *testing.T) {
	ms := time.Millisecond
	one := func(generated int, queued, prefill, decode time.Duration) engine.Usage {
		return engine.Usage{PromptTokens: 10, CachedTokens: 4, Generated: generated, Queued: queued, Prefill: prefill, Decode: decode}
	}
	for _, tt := range []struct {
		name string
		used []engine.Usage
		ends []Ending
		want map[string]any
	}{
		{"two answers to a prompt", []engine.Usage{one(11, 30*ms, 20*ms, 200*ms), one(6, 10*ms, 25*ms, 100*ms)}, []Ending{{Stop: StopLimit}, {Stop: StopEOS}},
			map[string]any{"outcome": "length", "prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 17, "queue_ms": 30.0, "ttft_ms": 35.0, "tokens_per_s": 75.0}},
		{"the first is the earlier", []engine.Usage{one(1, ms, 5*ms, 0), one(1, 9*ms, 5*ms, 0)}, []Ending{{Stop: StopByWord}, {Stop: StopLimit, truncated: true}},
			map[string]any{"outcome": "context", "prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 2, "queue_ms": 9.0, "ttft_ms": 6.0}},
		{"nothing generated", []engine.Usage{one(0, 1234567*time.Nanosecond, ms, 0)}, []Ending{{err: fmt.Errorf("%w", engine.ErrDeadline)}},
			map[string]any{"outcome": "deadline", "prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 0, "queue_ms": 1.23}},
		{"no time", []engine.Usage{one(3, 0, 0, 0), one(3, 0, 0, 0)}, []Ending{{Stop: StopEOS}, {Stop: StopEOS}},
			map[string]any{"outcome": "stop", "prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 6, "queue_ms": 0.0}},
		{"a rate in hundredths", []engine.Usage{one(2, 0, ms, 300*ms)}, []Ending{{Stop: StopEOS, truncated: true}},
			map[string]any{"outcome": "stop", "prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 2, "queue_ms": 0.0, "ttft_ms": 1.0, "tokens_per_s": 3.33}},
	} {
		g := &Generation{Opts: &ask.Options{Limits: ask.Limits{N: 2}}}
		for i, u := range tt.used {
			g.Used.add(i%2 == 0, u, 0)
			g.tally.add(u, &tt.ends[i])
		}
		got := g.note()
		delete(got, "completion")
		delete(got, "model")
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for want, e := range map[string]Ending{"cancelled": {err: context.Canceled}, "shutdown": {err: engine.ErrClosing}, "error": {err: io.EOF}} {
		if got := e.outcome(); got != want {
			t.Errorf("%v is %s", e.err, got)
		}
	}
	if !slices.Equal(outcomes, []string{"stop", "length", "context", "deadline", "shutdown", "cancelled", "error"}) {
		t.Errorf("the order is %v", outcomes)
	}
}

// Timings count what was evaluated for the request: not what the cache had, and the first token as part of the prompt.
func TestTimings(t *testing.T) {
	u := engine.Usage{PromptTokens: 30, CachedTokens: 10, Generated: 5, Prefill: 2 * time.Second, Decode: time.Second / 2}
	got := *TimingsOf(u)
	want := Timings{CacheN: 10, PromptN: 20, PromptMS: 2000, PromptPerTokenMS: 100, PromptPerSecond: 10, PredictedN: 5,
		PredictedMS: 500, PredictedPerToken: 125, PredictedPerSecond: 8}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	e := Event{Usage: u, Progress: &progress{engine.Progress{Total: 30, Cached: 10, Done: 15}, time.Second}}
	if got := e.Timings(); got.PromptN != 5 || got.PromptMS != 1000 || got.PromptPerSecond != 5 {
		t.Errorf("of half a prompt: %+v", got)
	}
	if got := *e.Progress.JSON(); got != (PromptProgress{Total: 30, Cache: 10, Processed: 15, TimeMS: 1000}) {
		t.Errorf("the progress is %+v", got)
	}
	for name, c := range map[string]struct {
		of   engine.Usage
		want Timings
	}{
		"nothing evaluated": {engine.Usage{PromptTokens: 3, CachedTokens: 3, Generated: 1, Prefill: time.Second, Decode: time.Second},
			Timings{CacheN: 3, PromptMS: 1000, PredictedN: 1, PredictedMS: 1000}},
		"no time":             {engine.Usage{PromptTokens: 3, Generated: 3}, Timings{PromptN: 3, PredictedN: 3}},
		"nothing generated":   {engine.Usage{PromptTokens: 1, Prefill: time.Second}, Timings{PromptN: 1, PromptMS: 1000, PromptPerTokenMS: 1000, PromptPerSecond: 1}},
		"one after the first": {engine.Usage{Generated: 2, Decode: 2 * time.Millisecond}, Timings{PredictedN: 2, PredictedMS: 2, PredictedPerToken: 2, PredictedPerSecond: 500}},
	} {
		if got := *TimingsOf(c.of); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	u.Drafted[draft.Model].Guessed = 3
	if got := TimingsOf(u); got.DraftN != 3 || got.DraftAccepted == nil || *got.DraftAccepted != 0 {
		t.Errorf("with drafts: %+v", got)
	}
}

// An answer has as many tokens at most as are wanted, or as the context has left, unless that is shifted.
func TestMostTokens(t *testing.T) {
	prompts := [][]int32{make([]int32, 90), make([]int32, 60)}
	for _, tt := range []struct {
		wanted        int
		shifts, shift bool
		want          int
	}{
		{-1, false, true, 40}, {0, false, true, 0}, {39, false, true, 39}, {41, false, true, 40}, {41, true, true, 41},
		{0, true, true, 0}, {41, true, false, 40}, {-1, true, true, 40},
	} {
		o := &ask.Options{Limits: ask.Limits{MaxTokens: tt.wanted, Shift: tt.shift}}
		if got := most(o, &ask.Model{Ctx: 100, Shifts: tt.shifts}, prompts); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// A key has a highest priority; a batch's requests give way to any.
func TestPriorities(t *testing.T) {
	c := Caller{Priority: 5, Owner: "me"}
	for asked, ok := range map[int]bool{-1000: true, 5: true, 6: false} {
		got, err := c.priority(asked)
		e := (*reply.Error)(nil)
		if ok && (err != nil || got != asked) || !ok && (!errors.As(err, &e) || e.Status != 403 || e.Param != "priority" ||
			e.Message != "priority: got 6, want at most 5, which is the highest for this API key or token") {
			t.Errorf("%d: %d, %v", asked, got, err)
		}
	}
	if got, err := (&Caller{Background: true}).priority(7); err != nil || got != math.MinInt32 {
		t.Errorf("of a batch: %d, %v", got, err)
	}
	if !c.Owns("me") || c.Owns("you") || !(&Caller{Owner: "x", Admin: true}).Owns("you") {
		t.Error("whose a request is")
	}
}

// Each error has a status, a field, a time and words for its client; of what is none of theirs they learn nothing.
func TestErrorsOfAll(t *testing.T) {
	scarce := &models.LoadError{Name: "m", Err: &mem.LimitError{Need: 2, Limit: 2}}
	large := &models.LoadError{Name: "m", Err: &mem.LimitError{Need: 3, Limit: 2}}
	for _, tt := range []struct {
		err    error
		status int
		param  string
		retry  time.Duration
		want   string
	}{
		{&reply.Error{Status: 418, Message: "tea"}, 418, "", 0, "tea"},
		{&engine.MemoryError{RetryAfter: time.Minute}, 503, "", time.Minute, ""},
		{&engine.TooLongError{Prompt: 9, Ctx: 8, Least: true}, 400, "", 0, "the request has at least 9 tokens, which exceeds the available context size of 8 tokens"},
		{&http.MaxBytesError{Limit: 7}, 413, "", 0, "the body is larger than 7 bytes, which is the limit"},
		{&models.NotFoundError{Name: "x"}, 404, "model", 0, `there is no model "x"`},
		{&models.NotLoadedError{Name: "x"}, 400, "model", 0, "POST /models/load"},
		{&models.BusyError{Name: "x", Waiting: 4}, 429, "model", time.Second, "4 requests wait"},
		{scarce, 503, "model", engine.RetryPressure, `the model "m" cannot be loaded`},
		{large, 500, "model", 0, `the model "m" cannot be loaded`},
		{models.ErrClosed, 503, "", 0, ""},
		{fmt.Errorf("secret: %w", generate.ErrBanned), 400, "logit_bias", 0, "logit_bias: "},
		{constrain.ErrLimit, 400, "", 0, ""},
		{engine.ErrAdapters, 400, "lora", 0, "lora: "},
		{engine.ErrAdapterGone, 404, "", 0, ""},
		{models.ErrLoading, 503, "", 0, "Loading model"},
		{engine.ErrDeadline, 504, "", 0, "the deadline has passed"},
		{fmt.Errorf("secret: %w", engine.ErrDamaged), 500, "", 0, engine.ErrDamaged.Error()},
		{engine.ErrClosing, 503, "", 0, "the server is shutting down"},
		{context.Canceled, 499, "", 0, "the request was cancelled"},
		{errors.New("secret"), 500, "", 0, "internal error"},
	} {
		e := toAPI(fmt.Errorf("more: %w", tt.err))
		if e.Status != tt.status || e.Param != tt.param || e.Retry != tt.retry || strings.Contains(e.Message, "secret") ||
			!strings.Contains(e.Message, tt.want) {
			t.Errorf("%v: %+v, want %d of %q after %v: %q", tt.err, e, tt.status, tt.param, tt.retry, tt.want)
		}
	}
	if e := toAPI(&models.BusyError{Waiting: 4}); e.Extra["n_queued"] != 4 {
		t.Errorf("%+v", e)
	}
}

// What goes wrong with a body is the client's.
func TestUnread(t *testing.T) {
	own := &reply.Error{Status: 413}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{os.ErrDeadlineExceeded, "the body did not arrive in time"}, {io.EOF, "the body ended early"},
		{io.ErrUnexpectedEOF, "the body ended early"}, {errors.New("odd"), "the body cannot be read: odd"},
	} {
		e := (*reply.Error)(nil)
		if err := Unread(tt.err); !errors.As(err, &e) || e.Status != 400 || e.Message != tt.want {
			t.Errorf("%v: %v", tt.err, err)
		}
	}
	for _, err := range []error{nil, own, &http.MaxBytesError{Limit: 1}} {
		if got := Unread(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// One of several texts that is too long is named, one alone is not.
func TestWhichIsTooLong(t *testing.T) {
	long := &engine.TooLongError{Prompt: 9, Ctx: 8}
	if err := WrapAPI(false, 2, long); err != long {
		t.Errorf("one alone: %v", err)
	}
	if err := WrapAPI(true, 2, io.EOF); err != io.EOF {
		t.Errorf("another error: %v", err)
	}
	e := (*reply.Error)(nil)
	if err := WrapAPI(true, 2, long); !errors.As(err, &e) || e.Status != 400 || !strings.HasPrefix(e.Message, "element 2 has 9 tokens") ||
		e.Extra["type"] != "exceed_context_size_error" || e.Extra["n_prompt_tokens"] != 9 || e.Extra["n_ctx"] != 8 {
		t.Errorf("%+v", err)
	}
}

// The tokens of a prompt have the logits of the row before them, and ranks from 1 among equals.
func TestPromptProbs(t *testing.T) {
	if newPromptProbs([]int32{3}, 1, true).reader() != nil || newPromptProbs([]int32{3, 4}, 1, true).reader() == nil {
		t.Error("there is something to read from two tokens on")
	}
	p := newPromptProbs([]int32{3, 1, 0}, 2, true)
	if output, from, to := p.Reads(); output == "" || from != 0 || to != 2 {
		t.Errorf("rows %d to %d of %s", from, to, output)
	}
	p.Read(0, []float32{1, 2, 3, 2})
	p.Read(1, []float32{9, 2, 3, 2})
	if want := []int{0, 2, 1}; !slices.Equal(p.Ranks, want) || p.err() != nil {
		t.Errorf("ranks %v, %v, want %v", p.Ranks, p.err(), want)
	}
	if own := p.Tokens[1]; own.ID != 1 || own.Logprob.ID != 1 || len(own.Top) != 2 || own.Top[0].ID != 2 || own.Logprob.Value >= 0 {
		t.Errorf("%+v", own)
	}
	plain := newPromptProbs([]int32{3, 1}, 0, false)
	plain.Read(0, []float32{1, 2, 3, math.MaxFloat32})
	if plain.Ranks != nil || plain.err() != nil {
		t.Errorf("%v, %v", plain.Ranks, plain.err())
	}
	for _, odd := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		p := newPromptProbs([]int32{3, 1}, 0, false)
		if p.Read(0, []float32{1, odd, 3}); p.err() == nil {
			t.Errorf("%v is taken", odd)
		}
	}
	if (*promptProbs)(nil).err() != nil {
		t.Error("what is not wanted is wrong")
	}
}

// A reservation grows in steps, and shrinks where two or more are free.
func TestLedgerSteps(t *testing.T) {
	budget := mem.NewBudget(64<<20, "a test")
	taken, err := budget.Reserve(answersPurpose, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{taken: taken, from: budget, open: true, floor: 100}
	const mb = 1 << 20
	for _, tt := range []struct{ add, want int }{
		{0, 100}, {1, mb}, {mb - 1, mb}, {1, 2 * mb}, {4 * mb, 6 * mb}, {-2 * mb, 4 * mb}, {-1, 4 * mb}, {-mb + 1, 4 * mb}, {-1, 2 * mb},
		{-2*mb + 1, 2 * mb}, {6 * mb, 7 * mb}, {-6 * mb, mb}, {-1, mb},
	} {
		if tt.add >= 0 && !l.Hold(tt.add) {
			t.Fatalf("no room for %d", tt.add)
		}
		if tt.add < 0 {
			l.drop(-tt.add)
		}
		if got := int(l.taken.Bytes()); got != tt.want {
			t.Errorf("after %+d, %d in use: %d bytes reserved, want %d", tt.add, l.held, got, tt.want)
		}
	}
	if l.Hold(65 * mb) {
		t.Error("more than there is")
	}
	l.close()
	if l.drop(1); l.Hold(1) || budget.Used() != 0 {
		t.Errorf("closed, with %d bytes", budget.Used())
	}
	none := &ledger{}
	if none.drop(5); !none.Hold(1 << 40) {
		t.Error("without a budget there is a bound")
	}
	none.close()
}

// Events wait for who fetches them, and none does for a mailbox that is closed.
func TestMailbox(t *testing.T) {
	b := newMailbox()
	b.put(Event{frame: 1})
	b.put(Event{frame: 2})
	<-b.ready
	if got := b.fetch(); len(got) != 2 || got[0].frame != 1 || len(b.fetch()) != 0 {
		t.Errorf("%+v", got)
	}
	b.put(Event{frame: 3})
	b.close()
	b.put(Event{frame: 4})
	if <-b.ready; len(b.fetch()) != 0 {
		t.Error("a closed one keeps events")
	}
}

// An id is of 18 random bytes: knowing it is enough to end a request.
func TestIDs(t *testing.T) {
	if a, b := NewID(), NewID(); len(a) != 24 || a == b {
		t.Errorf("%s and %s", a, b)
	}
}

// The last sequence of a slot stays known after its end: the one with the highest ticket.
func TestTasks(t *testing.T) {
	r, m := NewRunning(), &ask.Model{}
	of := func(id string, ticket uint64) (*Generation, Event) {
		seq := &Sequence{}
		seq.hasLine.Store(true)
		g := &Generation{ID: id, Model: m, Opts: &ask.Options{}, Seqs: []*Sequence{seq}, tickets: []ask.Ticket{numbered(ticket)},
			Request: &Request{Caller: Caller{Owner: "me"}}}
		return g, Event{Seq: seq, Usage: engine.Usage{Slot: 2}}
	}
	a, ended := of("a", 7)
	r.add(a)
	me, you, admin := &Caller{Owner: "me"}, &Caller{Owner: "you"}, &Caller{Admin: true}
	if r.Generation("a", me) != a || r.Generation("a", admin) != a || r.Generation("a", you) != nil || r.Generation("b", me) != nil {
		t.Error("whose a running request is")
	}
	if task, ok := r.Task(m, 7, 0); !ok || !task.Line || task.seq == nil || task.Owner != "me" {
		t.Errorf("while it runs: %+v, %v", task, ok)
	}
	r.ended(a, ended)
	r.remove(a)
	if task, ok := r.Task(m, 7, 2); !ok || !task.Line || task.seq != nil || task.Owner != "me" || r.Generation("a", me) != nil {
		t.Errorf("afterwards: %+v, %v", task, ok)
	}
	for _, wrong := range [][2]int{{7, 1}, {6, 2}} {
		if task, ok := r.Task(m, uint64(wrong[0]), wrong[1]); ok {
			t.Errorf("ticket %d of slot %d: %+v", wrong[0], wrong[1], task)
		}
	}
	older, ended := of("b", 6)
	r.ended(older, ended)
	if _, ok := r.Task(m, 7, 2); !ok {
		t.Error("an older one took its place")
	}
	newer, ended := of("c", 8)
	ended.Usage.Slot = -1 // it never ran
	r.ended(newer, ended)
	if _, ok := r.Task(m, 7, 2); !ok || len(r.last) != 1 {
		t.Errorf("one that never ran is known: %v", r.last)
	}
	r.Forget(&ask.Model{})
	if _, ok := r.Task(m, 7, 2); !ok {
		t.Error("another model's end forgot it")
	}
	if r.Forget(m); len(r.last) != 0 || len(r.by) != 0 || len(r.byID) != 0 {
		t.Errorf("%+v is left", r)
	}
}

type numbered uint64

func (n numbered) ID() uint64 { return uint64(n) }
func (n numbered) Cancel()    {}

// A score becomes a number between 0 and 1; a vector is cut to so many numbers and has its length again.
func TestVectors(t *testing.T) {
	if a, b := Sigmoid(0), Sigmoid(2); a != 0.5 || math.Abs(b-0.8807970779778823) > 1e-15 {
		t.Errorf("%v, %v", a, b)
	}
	for _, tt := range []struct {
		dimensions int
		want       []float32
	}{{0, []float32{0.6, 0.8, 0}}, {1, []float32{1}}, {2, []float32{0.6, 0.8}}, {3, []float32{0.6, 0.8, 0}}, {9, []float32{0.6, 0.8, 0}}} {
		if got := Finish([]float32{3, 4, 0}, tt.dimensions, engine.Euclidean); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%d: %v, want %v", tt.dimensions, got, tt.want)
		}
	}
	m := &ask.Model{Info: ask.ModelInfo{NEmbd: 3}}
	if err := CheckDimensions(m, 3); err != nil {
		t.Error(err)
	}
	if err := CheckDimensions(m, 4); err == nil || err.Error() != "dimensions: 4, want at most 3: vectors of this model have no more" {
		t.Error(err)
	}
}
