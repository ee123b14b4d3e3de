package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/tokenizer"
)

// metadata is a vocabulary: every byte is a token, and some words are.
type metadata map[string]any

func (m metadata) Value(key string) (any, bool) { v, ok := m[key]; return v, ok }

var controls = []string{"<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"}

func vocabulary(controls []string) metadata {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{2, 3, 3}
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
		types = append(types, 6)
	}
	for _, c := range controls {
		tokens = append(tokens, c)
		types = append(types, 3)
	}
	for _, word := range []string{"He", "ll", "o", "Hell", "Hello", "\u2581world", "\u2581"} {
		tokens = append(tokens, word)
		types = append(types, 1)
	}
	scores := make([]float32, len(tokens))
	for i := range scores {
		scores[i] = -float32(i)
	}
	return metadata{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.scores": scores, "tokenizer.ggml.add_space_prefix": false,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
	}
}

// thinkTemplate is ChatML of a model that thinks. opens says that the prompt
// opens the reasoning.
func thinkTemplate(t testing.TB, opens bool) *chat.Template {
	t.Helper()
	source := `{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}{% if m.role == 'alien' %}{{ raise_exception('roles must be of this world') }}{% endif %}` +
		"<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% elif OPENS %}<think>\n{{''}}{% endif %}" +
		"{% endif %}{% if mark is defined %}[{{ mark }}]{% endif %}"
	tmpl, err := chat.Parse(strings.ReplaceAll(source, "OPENS", fmt.Sprint(opens)), chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// fakeEngine answers each request with a script.
type fakeEngine struct {
	tok   *tokenizer.Tokenizer
	reply string
	delay time.Duration // before each token
	parts int           // of a prompt, with the delay between them
	err   error         // of Submit
	ends  error         // of requests, after their script

	overflows bool // all numbers that Readers read are NaN

	mu       sync.Mutex
	requests []*engine.Request
	running  int
	nextID   uint64
}

type fakeTicket struct {
	id   uint64
	stop context.CancelFunc
}

func (t *fakeTicket) ID() uint64 { return t.id }
func (t *fakeTicket) Cancel()    { t.stop() }

func (f *fakeEngine) Submit(r *engine.Request) (ask.Ticket, error) {
	if f.err != nil {
		return nil, f.err
	}
	if len(r.Prompt) >= 512 {
		return nil, &engine.TooLongError{Prompt: len(r.Prompt), Ctx: 512}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextID++
	f.running++
	f.requests = append(f.requests, r)
	ctx, stop := context.WithCancel(context.Background())
	go f.run(ctx, r)
	return &fakeTicket{f.nextID, stop}, nil
}

func (f *fakeEngine) Embedding(tokens int, pooling arch.Pooling) (*engine.Embedding, error) {
	return engine.NewEmbedding(tokens, pooling), nil
}

func (f *fakeEngine) run(ctx context.Context, r *engine.Request) {
	u := engine.Usage{PromptTokens: len(r.Prompt), CachedTokens: min(4, len(r.Prompt)-1), Prefill: time.Millisecond, Slot: 1}
	r.Sink.Progress(engine.Progress{Total: len(r.Prompt), Cached: u.CachedTokens, Done: u.CachedTokens})
	for range f.parts {
		select {
		case <-ctx.Done():
		case <-time.After(f.delay):
		}
		r.Sink.Progress(engine.Progress{Total: len(r.Prompt), Cached: u.CachedTokens, Done: u.CachedTokens})
	}
	r.Sink.Progress(engine.Progress{Total: len(r.Prompt), Cached: u.CachedTokens, Done: len(r.Prompt)})
	if r.Reader != nil {
		output, from, to := r.Reader.Reads()
		row := map[string][]float32{arch.Vectors: {3, 4}, arch.Logits: make([]float32, f.tok.Len())}[output]
		if f.overflows {
			for i := range row {
				row[i] = float32(math.NaN())
			}
		}
		for i := from; i < to; i++ {
			r.Reader.Read(i, row)
		}
		r.Reader.End(nil)
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
		r.Sink.Done(engine.Result{Finish: engine.MaxedOut, Usage: u})
		return
	}
	script := append(f.tok.Encode(f.reply, tokenizer.Options{NoSpecial: true, ParseSpecial: true}), 2)
	banned := len(r.Bias) > 0 && r.Bias[0].ID == 2
	result := engine.Result{Finish: engine.Stopped}
	for i := 0; ; i++ {
		if r.MaxTokens >= 0 && u.Generated >= r.MaxTokens {
			result.Finish = engine.MaxedOut
			break
		}
		if u.Generated+len(r.Prompt) >= 512 {
			result.Finish = engine.CtxFull
			break
		}
		if f.delay > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(f.delay):
			}
		}
		if ctx.Err() != nil {
			result = engine.Result{Err: context.Canceled}
			break
		}
		id := script[i%len(script)]
		if id == 2 && f.ends != nil {
			result = engine.Result{Err: f.ends}
			break
		}
		if id == 2 && banned {
			continue
		}
		t := engine.Token{ID: id, Stop: r.Stop != nil && r.Stop(id)}
		if r.TopLogprobs >= 0 {
			t.Logprob = sample.Logprob{ID: id, Value: -0.5}
			for k := range r.TopLogprobs {
				t.Top = append(t.Top, sample.Logprob{ID: id + int32(k), Value: -0.5 - float32(k)})
			}
		}
		u.Generated++
		u.Decode += time.Millisecond
		if !r.Sink.Token(t) {
			break
		}
	}
	result.Usage = u
	f.mu.Lock()
	f.running--
	f.mu.Unlock()
	r.Sink.Done(result)
}

func (f *fakeEngine) active() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

func (f *fakeEngine) last() *engine.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1]
}

func (f *fakeEngine) Status() engine.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	slots := make([]engine.SlotStatus, 4)
	for i := range min(f.running, 4) {
		slots[i] = engine.SlotStatus{Busy: true, Request: uint64(i + 1), Prompt: 8, Evaluated: 8, Generated: 3, MaxTokens: 100}
	}
	return engine.Status{Slots: slots}
}

func (f *fakeEngine) SaveSlot(slot int, _ string, w io.Writer) (engine.SlotFile, error) {
	n, err := io.WriteString(w, "slot\n")
	return engine.SlotFile{Tokens: 3, Bytes: int64(n)}, err
}

func (f *fakeEngine) RestoreSlot(slot int, _ string, r io.Reader) (engine.SlotFile, error) {
	b, err := io.ReadAll(r)
	if err == nil && string(b) != "slot\n" {
		err = engine.ErrSlotFile
	}
	return engine.SlotFile{Tokens: 3, Bytes: int64(len(b))}, err
}

func (f *fakeEngine) OpenAdapter(string) (*engine.Adapter, error) { return nil, engine.ErrAdapters }

func (f *fakeEngine) DropAdapter(context.Context, *engine.Adapter) error { return nil }

func (f *fakeEngine) EraseSlot(slot int, _ string) (int, error) {
	if slot == 3 {
		return 0, engine.ErrSlotEmpty
	}
	return 3, nil
}

// A site is a server with a fake engine.
type site struct {
	*fakeEngine
	server *Server
	url    string
	t      testing.TB
}

// newSite starts a server that answers with reply. change may be nil.
func newSite(t testing.TB, reply string, change func(*Config, *ask.Model, *fakeEngine)) *site {
	t.Helper()
	meta := vocabulary(controls)
	tok, err := tokenizer.New(meta)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeEngine{tok: tok, reply: reply}
	c := Config{Build: "test", Ping: -1}
	m := ask.Model{Engine: f, Tokenizer: tok, Template: thinkTemplate(t, false), Metadata: meta, Name: "fake/model", Path: "fake.gguf", Fingerprint: "test", Ctx: 512, Sampling: sample.Defaults(), Pooling: arch.PoolLast, Normalize: engine.Euclidean, Info: ask.ModelInfo{NEmbd: 2}}
	if change != nil {
		change(&c, &m, f)
	}
	s := New(c)
	s.with(t, m)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return &site{f, s, h.URL, t}
}

// with adds a model that is loaded.
func (s *Server) with(t testing.TB, m ask.Model) {
	t.Helper()
	s.adds(t, append([]string{m.Name}, m.Aliases...)...)(m)
}

// adds adds a model that is starting, and is loaded by what it returns.
func (s *Server) adds(t testing.TB, names ...string) (loaded func(ask.Model)) {
	t.Helper()
	got := make(chan ask.Model, 1)
	src := catalog.Source{Spec: models.Spec[ask.Model]{
		Names: names, Starting: true,
		Load: func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
			m := <-got
			got <- m // for when it is loaded again
			return &still{m: &m}, nil
		},
	}}
	if err := s.Add(src); err != nil {
		t.Fatal(err)
	}
	return func(m ask.Model) {
		got <- m
		if err := s.Load(names[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// A still is a model without weights, which sleeps and wakes at once.
type still struct {
	m      *ask.Model
	closed func()
}

func (i *still) Model() *ask.Model                         { return i.m }
func (i *still) Bytes() uint64                             { return 0 }
func (i *still) Need(uint64) (uint64, error)               { return 0, nil }
func (i *still) Sleep() error                              { return nil }
func (i *still) Wake(context.Context, func(float64)) error { return nil }
func (i *still) Drain(context.Context)                     {}
func (i *still) Close() {
	if i.closed != nil {
		i.closed()
	}
}

// do sends a request and returns the status and the answer.
func (s *site) do(method, path, body string) (int, []byte, http.Header) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if json.Valid([]byte(body)) {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, b, resp.Header
}

// post sends a request that is right and returns its answer.
func post[T any](s *site, path, body string) T {
	s.t.Helper()
	status, b, _ := s.do("POST", path, body)
	if status != 200 {
		s.t.Fatalf("POST %s %s: status %d: %s", path, body, status, b)
	}
	return parse[T](s.t, b)
}

func parse[T any](t testing.TB, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// events sends a request and returns the data of the events that answer it.
func (s *site) events(path, body string) []string {
	s.t.Helper()
	status, b, h := s.do("POST", path, body)
	if status != 200 || h.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("POST %s %s: status %d, %s: %s", path, body, status, h.Get("Content-Type"), b)
	}
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			out = append(out, data)
		} else if lines.Text() != "" && !strings.HasPrefix(lines.Text(), ":") {
			s.t.Fatalf("the line %q is no event", lines.Text())
		}
	}
	return out
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s after a minute", what)
		}
	}
}
