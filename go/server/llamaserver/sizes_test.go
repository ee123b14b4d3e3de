package llamaserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/llamaserver"
	"github.com/quern-llm/quern/go/stream"
)

// Whatever has a body refuses one that is none, and does nothing then.
func TestBodiesThatAreNone(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) {
		c.SlotPath, c.LoraDir, c.Library, c.Tools = t.TempDir(), t.TempDir(), &fake.Shelf{}, fake.Weather{}
	})
	n := 0
	for _, r := range (&llamaserver.API{List: &catalog.Catalog{}}).Routes() {
		if r.Body.Name == "" {
			continue
		}
		for _, body := range []string{`{"model":"fake/model"`, `7`, `[[]]`} {
			path := strings.Replace(r.Paths[0], ":id", "0", 1) + "?action=save"
			status, b, _ := s.Do(r.Method, path, body)
			if (r.Paths[0] == "/v1/mcp/call" || r.Paths[0] == "/tools") && status == http.StatusUnsupportedMediaType { // as what it is not
				status = 400
			}
			if n++; status != 400 {
				t.Errorf("%s %s of %s: %d %s", r.Method, path, body, status, b)
			}
		}
	}
	if n < 30 || s.Submitted() > 0 {
		t.Errorf("%d bodies, and %d requests to the engine", n, s.Submitted())
	}
}

// budgeted serves a fake with a budget of so many bytes.
func budgeted(t *testing.T, bytes uint64, change func(*server.Config, *ask.Model, *fake.Engine)) *fake.Site {
	t.Helper()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(bytes, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	s := fake.New(t, "", func(c *server.Config, m *ask.Model, f *fake.Engine) {
		c.Device = d
		if change != nil {
			change(c, m, f)
		}
	})
	s.Device = d
	return s
}

// What the texts of tokens take is asked for before they are made: at least 24 bytes for each byte of the body with the
// text of each token, 8 without, and one for each byte of the text of tokens beyond what the body has.
func TestMemoryOfTokens(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("q", 4096)
	s := budgeted(t, 1<<20, func(_ *server.Config, m *ask.Model, f *fake.Engine) {
		meta := fake.Vocabulary(fake.Controls)
		meta["tokenizer.ggml.tokens"] = append(meta["tokenizer.ggml.tokens"].([]string), long)
		meta["tokenizer.ggml.token_type"] = append(meta["tokenizer.ggml.token_type"].([]int32), 1)
		meta["tokenizer.ggml.scores"] = append(meta["tokenizer.ggml.scores"].([]float32), -1000)
		tok := fake.Tokenizer(t, meta)
		m.Tokenizer, m.Metadata, f.Tok = tok, meta, tok
	})
	refused := func(path, body string, takes int) {
		t.Helper()
		status, b, _ := s.Do("POST", path, body)
		want := fmt.Sprintf("the prompt may take %s of memory, and the server has 1.0 MB: want a shorter one", mem.FormatBytes(uint64(takes)))
		if takes == 0 && status == 200 {
			return
		}
		if takes == 0 || status != http.StatusRequestEntityTooLarge || fake.ErrorOf(t, b).Message != want {
			t.Errorf("%s with %d bytes: %d %.200s, want %s", path, len(body), status, b, want)
		}
	}
	for _, field := range []string{"with_pieces", "return_token_strs"} {
		for _, length := range []int{10_000, 40_000, 43_700, 60_000} {
			text := strings.Repeat("x", length)
			body := `{"content":"` + text + `","` + field + `":true}`
			takes := 24 * len(body)
			if takes <= 1<<20 {
				takes = 0
			}
			refused("/tokenize", body, takes)
			refused("/tokenize", `{"content":"`+text+`","`+field+`":false}`, 0)
		}
	}
	last := s.Tok.Len() - 1
	for n, takes := range map[int]int{100: 0, 250: 0, 300: 300 * 4096} {
		body := fmt.Sprintf(`{"tokens":[%d%s]}`, last, strings.Repeat(fmt.Sprintf(",%d", last), n-1))
		refused("/detokenize", body, takes)
	}
	s.Device.Budget().SetLimit(1<<30, "test")
	if got := fake.Post[content](s, "/detokenize", fmt.Sprintf(`{"tokens":[%d,%d]}`, last, last)).Content; got != long+long {
		t.Errorf("%d bytes", len(got))
	}
}

// shown is an engine with a state of its own.
type shown struct {
	*fake.Engine
	status engine.Status
}

func (e shown) Status() engine.Status { return e.status }

// Each number of the memory of a model and of its texts on disk is the one of that name.
func TestEachNumberOfMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, err := diskcache.Open(diskcache.Config{Dir: dir, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	kv := func(n uint64) engine.KVStatus {
		return engine.KVStatus{Bytes: n, Most: n + 1, Used: n + 2, Cached: n + 3}
	}
	s := budgeted(t, 1<<30, func(c *server.Config, m *ask.Model, f *fake.Engine) {
		c.Disk = disk
		m.Info.Size, m.Ctx = 77, 88
		m.Engine = shown{f, engine.Status{
			Slots: make([]engine.SlotStatus, 3), Queued: 2, Parked: 1, KV: kv(10), Counts: engine.Counts{RestoredTokens: 9},
			Stream: &stream.Stats{How: "mapped", Bytes: 20, Pinned: 21, Ring: 22, Cache: 23, Read: 24, Waited: 1500 * time.Millisecond, Hits: 26, Misses: 27, Errors: 28},
			Drafts: &engine.DraftStatus{File: "draft.gguf", Size: 30, Bytes: 31, Ctx: 32, KV: kv(40)},
		}}
	})
	p, err := ask.NewPersona(&persona.Persona{Name: "mario", From: "fake/model"})
	if err != nil {
		t.Fatal(err)
	}
	s.Server.SetPersonas([]catalog.Persona{{Persona: p, Base: "fake/model"}})
	unloaded := catalog.Source{}
	unloaded.Names = []string{"unloaded"}
	if err := s.Server.Add(unloaded); err != nil {
		t.Fatal(err)
	}
	got := fake.Parse[struct {
		Models []map[string]any
		Disk   map[string]any
	}](t, s.Get("/v1/memory"))
	if len(got.Models) != 1 {
		t.Fatalf("%+v", got)
	}
	delete(got.Models[0], "loaded")
	of := func(n float64) map[string]any {
		return map[string]any{"bytes": n, "most": n + 1, "used": n + 2, "cached": n + 3}
	}
	want := map[string]any{
		"id": "fake/model", "personas": []any{"mario"}, "state": "loaded", "bytes": 0.0, "leases": 0.0, "file": 77.0, "context": 88.0,
		"kv": of(10), "running": 0.0, "waiting": 2.0, "restored": 9.0, "parked": 1.0,
		"streamed": map[string]any{"how": "mapped", "bytes": 20.0, "kept": 21.0, "ring": 22.0, "cache": 23.0, "read": 24.0, "waited": 1.5,
			"hits": 26.0, "misses": 27.0, "errors": 28.0},
		"draft": map[string]any{"path": "draft.gguf", "bytes": 31.0, "file": 30.0, "context": 32.0, "kv": of(40)},
	}
	if !reflect.DeepEqual(got.Models[0], want) {
		t.Errorf("%v, want %v", got.Models[0], want)
	}
	if want := map[string]any{"bytes": 0.0, "limit": float64(1 << 20), "pages": 0.0, "read": 0.0, "written": 0.0, "removed": 0.0, "damaged": 0.0, "errors": 0.0}; !reflect.DeepEqual(got.Disk, want) {
		t.Errorf("%v, want %v", got.Disk, want)
	}
}

// A vocabulary tells its tokens by their kinds, and has none of some.
func TestKindsOfTokens(t *testing.T) {
	t.Parallel()
	type info struct {
		BOS     *string  `json:"bos_token"`
		EOS     *string  `json:"eos_token"`
		Unknown *string  `json:"unk_token"`
		Pad     *string  `json:"pad_token"`
		AddBOS  bool     `json:"add_bos_token"`
		AddEOS  bool     `json:"add_eos_token"`
		Max     int      `json:"model_max_length"`
		Special []string `json:"additional_special_tokens"`
		Added   map[string]struct {
			Content string
			Special bool
		} `json:"added_tokens_decoder"`
	}
	of := func(change func(fake.Metadata)) info {
		meta := fake.Vocabulary(fake.Controls)
		change(meta)
		tok := fake.Tokenizer(t, meta)
		s := fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) { m.Tokenizer, m.Metadata, f.Tok = tok, meta, tok })
		return fake.Parse[info](t, s.Get("/tokenizer_info"))
	}
	text := func(p *string) string {
		if p == nil {
			return "none"
		}
		return *p
	}
	const user = 259 // the first of the control tokens
	for name, c := range map[string]struct {
		change func(fake.Metadata)
		want   string
	}{
		"usual": {func(fake.Metadata) {}, "<s> </s> <unk> none, true false, 9 special of 9"},
		"padded": {func(m fake.Metadata) {
			m["tokenizer.ggml.padding_token_id"], m["tokenizer.ggml.add_eos_token"] = uint32(user), true
			m["tokenizer.ggml.token_type"].([]int32)[user] = 4
		}, "<s> </s> <unk> <|im_start|>, true true, 8 special of 9"},
		"first pads": {func(m fake.Metadata) { m["tokenizer.ggml.padding_token_id"] = uint32(0) }, "<s> </s> <unk> <unk>, true false, 9 special of 9"},
		"none pads":  {func(m fake.Metadata) { m["tokenizer.ggml.padding_token_id"] = uint32(1 << 20) }, "<s> </s> <unk> none, true false, 9 special of 9"},
		"first beyond": {func(m fake.Metadata) {
			m["tokenizer.ggml.padding_token_id"] = uint32(len(m["tokenizer.ggml.tokens"].([]string)))
			m["tokenizer.ggml.add_bos_token"] = false
		}, "<s> </s> <unk> none, false false, 9 special of 9"},
		"none unknown": {func(m fake.Metadata) { m["tokenizer.ggml.token_type"].([]int32)[0] = 1 }, "<s> </s> none none, true false, 9 special of 9"},
	} {
		i := of(c.change)
		got := fmt.Sprintf("%s %s %s %s, %v %v, %d special of %d", text(i.BOS), text(i.EOS), text(i.Unknown), text(i.Pad), i.AddBOS, i.AddEOS,
			len(i.Special), len(i.Added))
		if got != c.want || i.Max != 512 || i.Added["1"].Content != "<s>" || !i.Added["1"].Special || i.Added[fmt.Sprint(user)].Special != (name != "padded") {
			t.Errorf("%s: %s, want %s; %+v", name, got, c.want, i.Added)
		}
	}
}

// A slot that was never used has the settings of a request that says nothing, the model's defaults and its persona's
// among them.
func TestSettingsOfIdleSlots(t *testing.T) {
	t.Parallel()
	for defaults, drafts := range map[string]bool{`{}`: true, `{"speculative.types":"none"}`: false, `{"speculative.types":"ngram"}`: true} {
		s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) {
			var err error
			if m.Defaults, err = server.ReadDefaults([]byte(defaults)); err != nil {
				t.Error(err)
			}
		})
		for i, one := range fake.Parse[[]struct {
			ID          int  `json:"id"`
			Speculative bool `json:"speculative"`
			Processing  bool `json:"is_processing"`
			Task        int  `json:"id_task"`
		}](t, s.Get("/slots")) {
			if one.ID != i || one.Speculative != drafts || one.Processing || one.Task != -1 {
				t.Errorf("%s: %+v", defaults, one)
			}
		}
	}
}

// Files of slots that cannot be written or are none are errors with their causes, which leave nothing behind.
func TestSlotFilesThatFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.SlotPath = dir })
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		action, name string
		status       int
		want         string
	}{
		{"save", "good", 200, `"n_saved":3,"n_written":5`}, {"restore", "good", 200, `"n_read":5,"n_restored":3`},
		{"restore", "none", 400, `filename: there is no \"none\"`}, {"restore", "folder", 400, `filename: \"folder\" is no file`},
		{"restore", "other", 400, "filename: "}, {"save", "folder", 500, "internal error"},
	} {
		status, b, _ := s.Do("POST", "/slots/1?action="+c.action, `{"filename":"`+c.name+`"}`)
		if status != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.action, c.name, status, b, c.status, c.want)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("%v are left, %v", left, err)
	}
	if status, b, _ := s.Do("POST", "/slots/4?action=erase", ""); status != 400 || fake.ErrorOf(t, b).Message != `id_slot: "4", want 0 to 3` {
		t.Errorf("%d %s", status, b)
	}
	for id, want := range map[string]string{"-1": "400", "4": "400", "x": "400", "3": "400", "2": `{"id_slot":2,"n_erased":3}`} {
		status, b, _ := s.Do("POST", "/slots/"+id+"?action=erase", "")
		if status == 200 && string(b) != want || status != 200 && fmt.Sprint(status) != want {
			t.Errorf("slot %s: %d %s", id, status, b)
		}
	}
	if status, b, _ := s.Do("POST", "/slots/1?action=burn", ""); status != 400 || fake.ErrorOf(t, b).Param != "action" {
		t.Errorf("%d %s", status, b)
	}
	gone := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.SlotPath = filepath.Join(dir, "gone") })
	if status, b, _ := gone.Do("POST", "/slots/1?action=save", `{"filename":"x"}`); status != 500 {
		t.Errorf("without the folder: %d %s", status, b)
	}
	none := fake.New(t, "", nil)
	if status, b, _ := none.Do("POST", "/slots/1?action=save", `{"filename":"x"}`); status != 501 || !strings.Contains(string(b), "--slot-save-path") {
		t.Errorf("without a folder: %d %s", status, b)
	}
}

// The loading of a model that fails is told to those who ask for it, and the tools of a server that are none are an error.
func TestToolsThatAreNone(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]int{`{"function":{"name":"get_weather"}}`: 200, `{"function":{"name":7}}`: 500, `7`: 500} {
		s := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Tools = odd{spec: spec} })
		if status, b, _ := s.Do("GET", "/v1/mcp/tools", ""); status != want {
			t.Errorf("%s: %d %s", spec, status, b)
		}
	}
}

// odd are tools of one specification.
type odd struct {
	fake.Weather
	spec string
}

func (o odd) Specs() []json.RawMessage { return []json.RawMessage{json.RawMessage(o.spec)} }
