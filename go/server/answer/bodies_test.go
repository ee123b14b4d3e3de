package answer

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// hostOf returns a server's part of requests, with a budget.
func hostOf(t *testing.T, limit uint64) (*Host, *mem.Budget) {
	t.Helper()
	b := mem.NewBudget(limit, "a test")
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return &Host{Gates: NewGates(d), Note: func(*gin.Context, map[string]any) {}}, b
}

// requestOf returns a request with a body, of unknown length where that is less than 0.
func requestOf(t *testing.T, h *Host, body io.Reader, length int64) *Request {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", body)
	c.Request.ContentLength = length
	return NewRequest(h, c, &Route{}, Caller{}, 50<<20)
}

// A body takes the memory that it has, as soon as that is known, until its request is made of it; one of unknown length,
// once it is long, as much as a body may have while it arrives.
func TestMemoryOfBodies(t *testing.T) {
	for _, c := range []struct {
		bytes   int
		unknown bool
		most    uint64 // that is taken meanwhile
	}{
		{0, false, 0}, {1000, false, 1000}, {64 << 10, false, 64 << 10}, {1 << 20, false, 1 << 20}, {0, true, 64 << 10}, {10, true, 64 << 10},
		{64<<10 - 1, true, 64 << 10}, {64 << 10, true, 50 << 20}, {64<<10 + 1, true, 50 << 20}, {1 << 20, true, 50 << 20},
	} {
		h, budget := hostOf(t, 1<<30)
		taken := func() uint64 { return budget.ByPurpose()[bodiesPurpose] }
		text := strings.Repeat("0123456789abcdef", c.bytes/16+1)[:c.bytes]
		length := int64(c.bytes)
		if c.unknown {
			length = -1
		}
		req := requestOf(t, h, io.NopCloser(strings.NewReader(text)), length)
		before := budget.Peak()
		if err := req.Receive(); err != nil || string(req.Body) != text || taken() != uint64(c.bytes) || budget.Peak()-before != c.most {
			t.Errorf("%+v: %v, %d bytes arrived, %d are taken, and up to %d were", c, err, len(req.Body), taken(), budget.Peak()-before)
		}
		if err := req.Receive(); err != nil || len(req.Body) != c.bytes {
			t.Errorf("%+v: again: %v", c, err)
		}
		if req.Made(); req.Body != nil || taken() != 0 {
			t.Errorf("%+v: %d bytes are left", c, taken())
		}
	}
	h, _ := hostOf(t, 1<<30)
	short := requestOf(t, h, strings.NewReader("abc"), 4)
	if err := short.Receive(); err == nil || err.Error() != "the body ended early" || short.received {
		t.Errorf("a body that ends early: %v", err)
	}
	if short.Read(nil); short.received {
		t.Error("a body that ended early is read")
	}
}

// Making a prompt takes 64 bytes for each of its text, of a long one as much as all prompts have, and never less than 8.
func TestMemoryOfMaking(t *testing.T) {
	h, budget := hostOf(t, 1<<30)
	req := requestOf(t, h, nil, 0)
	for _, c := range []struct{ text, want int }{
		{0, 0}, {1000, 64_000}, {500, 32_000}, {2 << 20, 128 << 20}, {3 << 20, 128 << 20}, {16 << 20, 128 << 20}, {20 << 20, 160 << 20}, {1, 64},
	} {
		before := budget.Used()
		if err := req.Admit(c.text); err != nil || budget.ByPurpose()[promptsPurpose] != uint64(c.want) || before > 160<<20 {
			t.Errorf("%+v: %v, %v", c, err, budget.ByPurpose())
		}
	}
	if req.Made(); budget.Used() != 0 {
		t.Errorf("%v is left", budget.ByPurpose())
	}
	free := requestOf(t, &Host{Gates: NewGates(nil)}, strings.NewReader("abc"), -1)
	if err := errors.Join(free.Receive(), free.Admit(1<<50)); err != nil || string(free.Body) != "abc" {
		t.Errorf("without a budget: %v", err)
	}
}

// So much is admitted at a time: three quarters of a sixteenth of the memory in large bodies, of an eighth in prompts.
// What does not fit beside others waits for them, as long as its client does.
func TestGates(t *testing.T) {
	h, budget := hostOf(t, 1<<30)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for gate, share := range map[*mem.Gate]uint64{h.Gates.bodies: 48 << 20, h.Gates.prompts: 96 << 20} {
		first := requestOf(t, h, nil, 0)
		pass, err := first.enter(first.Context(), gate, "it", share-2<<20)
		if err != nil {
			t.Fatal(err)
		}
		for more, fits := range map[uint64]bool{2 << 20: true, 2<<20 + 1: false} {
			second := requestOf(t, h, nil, 0)
			if !fits {
				second.HTTP.Request = second.HTTP.Request.WithContext(gone)
			}
			other, err := second.enter(second.Context(), gate, "it", more)
			if fits && err != nil || !fits && err != reply.ErrGone {
				t.Errorf("%d beside %d: %v", more, share-2<<20, err)
			}
			other.Release()
		}
		pass.Release()
	}
	// What never fits is too large; what does not fit since others have the memory may come again.
	budget.SetLimit(100<<20, "a test")
	for n, want := range map[uint64]reply.Error{
		100<<20 + 1: {Status: 413, Message: "it may take 104.9 MB of memory, and the server has 104.9 MB: want a shorter one"},
		100 << 20: {Status: 503, Retry: retryMemory,
			Message: "it may take 104.9 MB of memory, and 83.9 MB are free now; try again later, or with a shorter one"},
	} {
		others, err := budget.Reserve("others", 20<<20)
		if err != nil {
			t.Fatal(err)
		}
		_, err = requestOf(t, h, nil, 0).enter(t.Context(), h.Gates.bodies, "it", n)
		e := (*reply.Error)(nil)
		if !errors.As(err, &e) || e.Status != want.Status || e.Message != want.Message || e.Retry != want.Retry {
			t.Errorf("%d: %v, want %+v", n, err, want)
		}
		others.Release()
		pass, err := requestOf(t, h, nil, 0).enter(t.Context(), h.Gates.bodies, "it", n)
		if (err == nil) != (want.Status == 503) {
			t.Errorf("%d, with all memory free: %v", n, err)
		}
		pass.Release()
	}
}

// The reason of a refusal is noted, but for what the log has in a line of its own and for clients that have gone.
func TestNotedErrors(t *testing.T) {
	noted := map[string]any{}
	h := &Host{Note: func(_ *gin.Context, fields map[string]any) { maps.Copy(noted, fields) }}
	for status, want := range map[int]any{400: "the reason", 503: "the reason", 500: nil, 499: nil} {
		clear(noted)
		requestOf(t, h, nil, 0).noteError(&reply.Error{Status: status, Message: "the reason"})
		if noted["error"] != want {
			t.Errorf("%d: %v", status, noted)
		}
	}
}

// A text among inputs is one that is nothing else.
func TestTextsOfInputs(t *testing.T) {
	part := func(text string, ids ...int32) Inputs {
		p := make(Inputs, 1)
		p[0] = append(p[0], ask.PromptPart{Text: text, Ids: ids})
		return p
	}
	one, ids := part("a"), part("", 7)
	two := Inputs{append(part("a")[0], part("b")[0]...)}
	for _, c := range []struct {
		in   Inputs
		want string
		ok   bool
	}{{one, "a", true}, {append(part("a"), part("b")...), "a b", true}, {ids, "", false}, {append(part("a"), ids...), "", false}, {two, "", false}, {nil, "", true}} {
		if texts, ok := c.in.Texts(); ok != c.ok || strings.Join(texts, " ") != c.want {
			t.Errorf("%+v: %q, %v", c.in, texts, ok)
		}
	}
}

// How long a stream may be silent is what the request says, or else the server.
func TestQuietStreams(t *testing.T) {
	req := requestOf(t, &Host{Ping: 7 * time.Second}, nil, 0)
	for ping, want := range map[int]time.Duration{0: 7 * time.Second, 3: 3 * time.Second, -1: -time.Second} {
		o := ask.NewOptions(&ask.Model{})
		o.Ping = ping
		if got := req.Quiet(&o); got != want {
			t.Errorf("%d: %v", ping, got)
		}
	}
}

// A page of another origin is told from the server's own and from programs, for what only reads as well.
func TestOtherSites(t *testing.T) {
	for site, want := range map[string]bool{"": false, "same-origin": false, "none": false, "cross-site": true, "same-site": true} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			req := requestOf(t, &Host{}, nil, 0)
			req.HTTP.Request.Method = method
			req.HTTP.Request.Header.Set("Sec-Fetch-Site", site)
			if got := req.OfOtherSite(); got != want || req.HTTP.Request.Method != method {
				t.Errorf("%s of %q: %v", method, site, got)
			}
		}
	}
}

// An error of a request whose stream has begun while it waited is an event; a client that is gone is told nothing.
func TestErrorsOfStreams(t *testing.T) {
	h := &Host{Note: func(*gin.Context, map[string]any) {}}
	fail := func(waited bool, err error) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		req := requestOf(t, h, nil, 0)
		c, _ := gin.CreateTestContext(w)
		c.Request, req.HTTP, req.Waited = req.HTTP.Request, c, waited
		req.Fail(err)
		c.Writer.WriteHeaderNow()
		if !c.IsAborted() {
			t.Error("other handlers go on")
		}
		return w
	}
	busy := &reply.Error{Status: 429, Message: "busy"}
	if w := fail(true, busy); !strings.HasPrefix(w.Body.String(), `data: {"error":{`) || w.Header().Get("Retry-After") != "" {
		t.Errorf("%s", w.Body)
	}
	if w := fail(false, busy); w.Code != 429 || !strings.HasPrefix(w.Body.String(), `{"error":{`) || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, waited := range []bool{true, false} {
		if w := fail(waited, reply.ErrGone); w.Body.Len() > 0 || w.Code != reply.StatusCancelled {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// Once texts are tokens, these take memory, and what they were made of none.
func TestMemoryOfTexts(t *testing.T) {
	h, budget := hostOf(t, 1<<30)
	tok, err := tokenizer.New(letters{})
	if err != nil {
		t.Fatal(err)
	}
	req := requestOf(t, h, strings.NewReader("abcd"), 4)
	req.Model = &ask.Model{Tokenizer: tok, Ctx: 9, Memory: mem.NewBudget(1<<20, "a test")}
	if err := errors.Join(req.Receive(), req.Admit(100)); err != nil {
		t.Fatal(err)
	}
	read, release, err := req.EncodeInputs(Inputs{{{Text: "ab"}}, {{Text: "abc"}}}, "input", 0)
	if err != nil || len(read) != 2 || len(read[0].IDs) != 3 || len(read[1].IDs) != 4 || budget.Used() != 0 || req.Body != nil || req.Model.Memory.Used() < 8+4*7 {
		t.Errorf("%+v, %v, %d bytes of bodies and prompts, %d of tokens", read, err, budget.Used(), req.Model.Memory.Used())
	}
	if release(); req.Model.Memory.Used() != 0 {
		t.Errorf("%d bytes are left", req.Model.Memory.Used())
	}
	req = requestOf(t, h, strings.NewReader("abcd"), 4)
	req.Model = &ask.Model{Tokenizer: tok, Ctx: 9, Memory: mem.NewBudget(1<<20, "a test")}
	if _, _, err := req.EncodeInputs(Inputs{{{Text: "ab"}}, {{Text: "abcdefghijk"}}}, "input", 0); err == nil || req.Model.Memory.Used() != 0 {
		t.Errorf("%v, %d bytes are left", err, req.Model.Memory.Used())
	}
}

// A prompt that a request makes later is admitted as its first is: it waits for those of others, and ends as its context does.
func TestLaterPromptsAreAdmitted(t *testing.T) {
	h, budget := hostOf(t, 1<<30)
	others, err := h.Gates.prompts.Enter(t.Context(), 96<<20)
	if err != nil {
		t.Fatal(err)
	}
	req := requestOf(t, h, nil, 0)
	for _, why := range []error{engine.ErrDeadline, reply.ErrCancelled, context.Canceled} {
		ctx, end := context.WithCancelCause(t.Context())
		end(why)
		if why == context.Canceled {
			why = reply.ErrGone
		}
		if _, err := req.Again(ctx, nil, nil, 1<<20); !errors.Is(err, why) {
			t.Errorf("%v, want %v", err, why)
		}
	}
	others.Release()
	pass, err := req.AdmitLater(t.Context(), 1<<20)
	if err != nil || budget.ByPurpose()[promptsPurpose] != 64<<20 {
		t.Errorf("%v, %d bytes", err, budget.ByPurpose()[promptsPurpose])
	}
	pass.Release()
	e := (*reply.Error)(nil)
	if _, err := req.Again(t.Context(), nil, nil, 1<<30); !errors.As(err, &e) || e.Status != 413 {
		t.Errorf("one that never fits: %v", err)
	}
	if n := budget.ByPurpose()[promptsPurpose]; n != 0 {
		t.Errorf("%d bytes stay", n)
	}
}
