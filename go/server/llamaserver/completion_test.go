package llamaserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/llamaserver"
	"github.com/quern-llm/quern/go/tokenizer"
)

func TestNative(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	for _, path := range []string{"/completion", "/completions"} {
		a := fake.Post[map[string]any](s, path,
			`{"prompt":"hi","n_predict":20,"stop":["ld"],"return_tokens":true,"n_probs":1,"temperature":0.25}`)
		for name, want := range map[string]any{
			"content": "Hello wor", "stop": true, "stop_type": "word", "stopping_word": "ld", "index": 0.0, "id_slot": 1.0,
			"tokens_evaluated": 3.0, "tokens_cached": 2.0, "truncated": false, "has_new_line": false, "prompt": "<s>hi",
			"model": "fake/model",
		} {
			if a[name] != want {
				t.Errorf("%s is %v, want %v", name, a[name], want)
			}
		}
		settings := a["generation_settings"].(map[string]any)
		if settings["n_predict"] != 20.0 || settings["max_tokens"] != 20.0 || settings["temperature"] != 0.25 ||
			settings["top_k"] != 40.0 {
			t.Errorf("settings %v", settings)
		}
		if len(a["tokens"].([]any)) != 5 || len(a["completion_probabilities"].([]any)) != 5 || a["timings"] == nil {
			t.Errorf("tokens %v, probabilities %v", a["tokens"], a["completion_probabilities"])
		}
	}
	if a := fake.Post[map[string]any](s, "/completion",
		`{"prompt":"hi","response_fields":["content","generation_settings/n_predict","nothing/here"]}`); !reflect.DeepEqual(a,
		map[string]any{"content": "Hello world", "generation_settings/n_predict": -1.0}) {
		t.Errorf("response_fields: %v", a)
	}
	if a := fake.Post[[]map[string]any](s, "/completion", `{"prompt":["a","b"]}`); len(a) != 2 || a[1]["index"] != 1.0 ||
		a[1]["prompt"] != "<s>b" {
		t.Errorf("two prompts: %v", a)
	}
	for body, want := range map[string]string{`{"prompt":"x"}`: "eos", `{"prompt":"x","n_predict":1}`: "limit"} {
		if a := fake.Post[map[string]any](s, "/completion", body); a["stop_type"] != want {
			t.Errorf("%s: stop_type %v, want %s", body, a["stop_type"], want)
		}
	}
}

// A prompt comes back as its tokens spell it, with the space that a vocabulary
// puts in front; the echo of /v1/completions is the client's own text.
func TestPromptAsTokens(t *testing.T) {
	t.Parallel()
	meta := fake.Vocabulary(fake.Controls)
	meta["tokenizer.ggml.add_space_prefix"] = true
	tok, err := tokenizer.New(meta)
	if err != nil {
		t.Fatal(err)
	}
	s := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
		m.Tokenizer, m.Metadata, f.Tok = tok,
			meta, tok
	})
	if a := fake.Post[map[string]any](s, "/completion", `{"prompt":"world"}`); a["prompt"] != "<s> world" {
		t.Errorf("the prompt is %q", a["prompt"])
	}
	if got := fake.Post[content](s, "/detokenize", `{"tokens":[1,271]}`).Content; got != "<s> world" {
		t.Errorf("the text of the tokens is %q", got)
	}
	if a := fake.Post[struct {
		Choices []struct {
			Text string `json:"text"`
		} `json:"choices"`
	}](s, "/v1/completions", `{"prompt":"world","echo":true,"max_tokens":0}`); a.Choices[0].Text != "world" {
		t.Errorf("the echo is %q", a.Choices[0].Text)
	}
}

func TestNativeStream(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	events := s.Events("/completion", `{"prompt":"hi","stream":true}`)
	text, tokens := "", 0
	for i, e := range events {
		a := fake.Parse[map[string]any](t, []byte(e))
		text += a["content"].(string)
		tokens += len(a["tokens"].([]any))
		if last := i == len(events)-1; a["stop"] != last {
			t.Errorf("event %d of %d: stop is %v", i, len(events), a["stop"])
		}
	}
	if text != "Hello world" || tokens != 7 {
		t.Errorf("got %q in %d tokens", text, tokens)
	}
}

// The time limit counts from the first token, and waits for the end of a line.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	slow := func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Delay = 5 * time.Millisecond }
	a := fake.Post[map[string]any](fake.New(t, "ab\ncdefgh", slow), "/completion", `{"prompt":"x","t_max_predict_ms":1}`)
	if a["content"] != "ab\n" || a["stop_type"] != "limit" {
		t.Errorf("got %q, %v", a["content"], a["stop_type"])
	}
	if a := fake.Post[map[string]any](fake.New(t, "abcd", slow), "/completion",
		`{"prompt":"x","t_max_predict_ms":1}`); a["content"] != "abcd" {
		t.Errorf("without a line break: got %q", a["content"])
	}
}

func TestInfill(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for _, c := range []struct{ body, want string }{
		{`{"input_prefix":"a(","input_suffix":")"}`, "<s><|fim_prefix|>a(<|fim_suffix|>)<|fim_middle|>"},
		{`{"input_prefix":"a(","input_suffix":")","prompt":"b"}`, "<s><|fim_prefix|>a(<|fim_suffix|>)<|fim_middle|>b"},
		{`{"input_prefix":"a","input_suffix":"c","input_extra":[{"filename":"x.go","text":"X"}]}`,
			"<s><|repo_name|>myproject\n<|file_sep|>x.go\nX<|file_sep|>filename\n<|fim_prefix|>a<|fim_suffix|>c<|fim_middle|>"},
		{`{"samplers":["top_k","top_p","infill"],"t_max_prompt_ms":500}`, "<s><|fim_prefix|><|fim_suffix|><|fim_middle|>"},
	} {
		if a := fake.Post[map[string]any](s, "/infill", c.body); a["content"] != "Hello" {
			t.Errorf("%s: got %v", c.body, a["content"])
		}
		if got := s.Tok.Detokenize(s.Last().Prompt, true); got != c.want {
			t.Errorf("%s: prompt %q, want %q", c.body, got, c.want)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	if got := fake.Post[tokens](s, "/tokenize",
		`{"content":"Hello<s>","add_special":true}`).Tokens; !reflect.DeepEqual(got, []any{1.0, 270.0, 1.0}) {
		t.Errorf("got %v", got)
	}
	if got := fake.Post[tokens](s, "/tokenize", `{"content":"<s>","parse_special":false}`).Tokens; len(got) != 3 {
		t.Errorf("got %v", got)
	}
	got := fake.Post[tokens](s, "/tokenize", `{"content":"H\u00e9","with_pieces":true}`).Tokens
	want := []any{
		map[string]any{"id": 75.0, "piece": "H"},
		map[string]any{"id": 198.0, "piece": []any{195.0}}, map[string]any{"id": 172.0, "piece": []any{169.0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := fake.Post[tokens](s, "/tokenize", `{"content":["Hello",1,"<s>"],"add_special":true}`).Tokens; !reflect.DeepEqual(got,
		[]any{1.0, 270.0, 1.0, 1.0}) {
		t.Errorf("texts and ids: %v", got)
	}
	s.Refused("/tokenize", `{"content":[9999]}`, 400, "content")
	s.Refused("/tokenize", `{"content":{"prompt_string":"`+ask.MediaMarker+`","multimodal_data":["aaaa"]}}`, 400, "messages")
	if got := fake.Post[content](s, "/detokenize", `{"tokens":[1,270,198,172]}`).Content; got != "<s>Hello\u00e9" {
		t.Errorf("got %q", got)
	}
}

func TestProps(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Sampling.Temp = 0.5 })
	_, b, _ := s.Do("GET", "/props", "")
	p := fake.Parse[props](t, b)
	if p.TotalSlots != 4 || p.Path != "fake.gguf" || p.Defaults.Ctx != 512 || p.BOS != "<s>" || p.EOS != "</s>" ||
		!strings.Contains(p.Template, "messages") || p.Build != "b10573-test" {
		t.Errorf("got %+v", p)
	}
	if strings.Contains(string(b), "chat_template_warning") {
		t.Errorf("a warning of nothing: %s", b)
	}
	params := p.Defaults.Params
	for name, want := range map[string]any{
		"temperature": 0.5, "top_k": 40.0, "top_p": 0.95, "min_p": 0.05, "n_predict": -1.0, "seed": 4294967295.0,
		"repeat_last_n":  64.0,
		"repeat_penalty": 1.0, "dry_multiplier": 0.0, "mirostat": 0.0, "typical_p": 1.0, "top_n_sigma": -1.0,
		"xtc_probability": 0.0, "n_probs": 0.0,
		"stream": false, "cache_prompt": true, "ignore_eos": false, "grammar": "",
	} {
		if params[name] != want {
			t.Errorf("%s is %v, want %v", name, params[name], want)
		}
	}
	if got := params["samplers"]; !reflect.DeepEqual(got,
		[]any{"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"}) {
		t.Errorf("samplers %v", got)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) {
		m.Aliases, m.Tags = []string{"second"}, []string{"small"}
		m.Info = ask.ModelInfo{NVocab: 99, NParams: 8e9, Arch: "llama", FileType: "Q4_K - Medium"}
	})
	for _, path := range []string{"/v1/models", "/models"} {
		_, b, _ := s.Do("GET", path, "")
		l := fake.Parse[fake.ModelList](t, b)
		if l.Object != "list" || len(l.Data) != 1 || l.Data[0].ID != "fake/model" || l.Data[0].Meta.NVocab != 99 ||
			l.Data[0].Created == 0 {
			t.Errorf("%s: got %s", path, b)
		}
	}
	_, list, _ := s.Do("GET", "/v1/models", "")
	l := fake.Parse[fake.ModelList](t, list)
	if d := l.Data[0]; !slices.Equal(d.Aliases, []string{"second"}) || !slices.Equal(d.Tags, []string{"small"}) ||
		d.OwnedBy != "llamacpp" || d.Meta.NCtx != 512 {
		t.Errorf("got %+v", d)
	}
	if c := l.Models[0]; c.Name != "fake/model" || c.Details.ParameterSize != "8B" ||
		c.Details.Quantization != "Q4_K - Medium" || c.Details.Family != "llama" {
		t.Errorf("got %+v", c)
	}
	if status, b, _ := s.Do("GET", "/v1/models/second", ""); status != 200 ||
		fake.Parse[fake.ModelEntry](t, b).ID != "fake/model" {
		t.Errorf("by an alias: got %d %s", status, b)
	}
	if status, b, _ := s.Do("GET", "/v1/models/fake/model", ""); status != 200 ||
		fake.Parse[fake.ModelEntry](t, b).ID != "fake/model" {
		t.Errorf("got %d %s", status, b)
	}
	if status, b, _ := s.Do("GET", "/v1/models/gpt-5", ""); status != 404 ||
		!strings.Contains(string(b), "model_not_found") {
		t.Errorf("got %d %s", status, b)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, f *fake.Engine) {
		c.SlotPath, f.Delay = dir,
			100*time.Millisecond
	})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() {
		defer close(done)
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/completion",
			strings.NewReader(`{"prompt":"x","ignore_eos":true,"n_predict":100000,"top_k":3}`))
		if err != nil {
			t.Error(err)
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	fake.Eventually(t, "running", func() bool { return s.Active() == 1 })
	_, b, _ := s.Do("GET", "/slots", "")
	l := fake.Parse[[]slot](t, b)
	if len(l) != 4 || !l[0].Processing || l[0].Task != 1 || l[0].Ctx != 512 || l[0].Next[0].Remain != 97 ||
		l[0].Params["top_k"] != 3.0 || l[1].Processing || l[1].Task != -1 || l[1].Params != nil || l[1].Next != nil {
		t.Errorf("got %s", b)
	}
	leave()
	<-done
	fake.Eventually(t, "ended", func() bool { return s.Active() == 0 })
	if status, b, _ := s.Do("GET", "/slots?fail_on_no_slot=1", ""); status != 200 {
		t.Errorf("got %d %s", status, b)
	}

	saved := fake.Post[map[string]any](s, "/slots/0?action=save", `{"filename":"a.bin"}`)
	if saved["n_saved"] != 3.0 || saved["n_written"] != 5.0 || saved["filename"] != "a.bin" || saved["timings"] == nil {
		t.Errorf("got %v", saved)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.bin")); err != nil || string(b) != "slot\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a.bin")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file can be read by others: %v, %v", info.Mode(), err)
	}
	// What is no file is not opened, least of all a pipe, which would wait.
	if err := errors.Join(unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		os.Mkdir(filepath.Join(dir, "folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "folder"} {
		s.Refused("/slots/0?action=restore", `{"filename":"`+name+`"}`, 400, "filename")
	}
	if r := fake.Post[map[string]any](s, "/slots/1?action=restore", `{"filename":"a.bin"}`); r["n_restored"] != 3.0 ||
		r["id_slot"] != 1.0 {
		t.Errorf("got %v", r)
	}
	if r := fake.Post[map[string]any](s, "/slots/1?action=erase", ``); r["n_erased"] != 3.0 {
		t.Errorf("got %v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.bin"), []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, body, param string }{
		{"/slots/9?action=save", `{"filename":"a"}`, "id_slot"}, {"/slots/x?action=save", `{"filename":"a"}`, "id_slot"},
		{"/slots/3?action=erase", ``, "id_slot"},
		{"/slots/0?action=eat", `{"filename":"a"}`, "action"}, {"/slots/0?action=save", `{}`, "filename"},
		{"/slots/0?action=save", `{"filename":"../a"}`, "filename"},
		{"/slots/0?action=save", `{"filename":"/etc/passwd"}`, "filename"},
		{"/slots/0?action=save", `{"filename":"."}`, "filename"}, {"/slots/0?action=save", `{"filename":""}`, "filename"},
		{"/slots/0?action=save", `{"filename":"a\u0000b"}`, "filename"},
		{"/slots/0?action=save", `{"filename":".hidden"}`, "filename"},
		{"/slots/0?action=save", `{"filename":"` + strings.Repeat("a", 256) + `"}`, "filename"},
		{"/slots/0?action=restore", `{"filename":"none.bin"}`, "filename"},
		{"/slots/0?action=restore", `{"filename":"b.bin"}`, "filename"},
	} {
		s.Refused(c.path, c.body, 400, c.param)
	}
	if err := os.WriteFile(filepath.Join(dir, "large.bin"), []byte("large\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, b, h := s.Do("POST", "/slots/0?action=restore", `{"filename":"large.bin"}`); status != 503 || h.Get("Retry-After") != "5" || !strings.Contains(fake.ErrorOf(t, b).Message, "no room") {
		t.Errorf("no room for a slot: %d %s %v", status, b, h)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("parts of files are left: %v %v", left, err)
	}
	none := fake.New(t, "", nil)
	none.Refused("/slots/0?action=save", `{"filename":"a"}`, 501, "")
}

func TestSmallEndpoints(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", "/health", "", 200, `{"status":"ok"}`},
		{"GET", "/v1/health", "", 200, `{"status":"ok"}`},
		{"GET", "/lora-adapters", "", 200, `[]`},
		{"POST", "/lora-adapters", "[]", 200, `{"success":true}`},
		{"POST", "/lora-adapters", `[{"id":0,"scale":1}]`, 400, "no adapter 0: the model has none"},
		{"POST", "/lora-adapters", `{}`, 400, "an array"},
		{"POST", "/props", `{}`, 501, "not_supported_error"},
		{"GET", "/nothing", "", 404, "not_found_error"},
		{"HEAD", "/health", "", 200, ""},
		{"HEAD", "/v1/models", "", 200, ""},
		{"HEAD", "/v1/models/none", "", 404, ""},
		{"HEAD", "/models/sse", "", 200, ""},
		{"HEAD", "/tools", "", 501, ""},
		{"HEAD", "/completion", "", 405, ""},
		{"PUT", "/completion", "", 405, "POST"},
		{"DELETE", "/v1/chat/completions/x", "", 404, "not_found_error"},
	} {
		status, b, _ := s.Do(c.method, c.path, c.body)
		if status != c.status || !strings.Contains(string(b), c.answer) {
			t.Errorf("%s %s: got %d %s", c.method, c.path, status, b)
		}
	}
}

// A line with less indentation than asked for ends the text, wherever tokens end.
func TestIndentEndsText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\n  b\n\t\tc\n d": "a\n  b\n\t\tc\n ", "a\n    b": "a\n    b", "a\n\n  b": "a\n", "  a\n": "  a\n", "a\n": "a\n",
		"a\nstop": "a\n",
	} {
		a := fake.Post[map[string]any](fake.New(t, text, nil), "/completion", `{"prompt":"x","n_indent":2,"stop":["stop"]}`)
		if a["content"] != want {
			t.Errorf("%q: got %q, want %q", text, a["content"], want)
		}
		if cut := text != want; cut && a["stop_type"] != "limit" {
			t.Errorf("%q: it ended by %v", text, a["stop_type"])
		}
	}
}

// A model without tokens for gaps says so.
func TestModelCannot(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
		meta := fake.Vocabulary(nil)
		tok, err := tokenizer.New(meta)
		if err != nil {
			t.Fatal(err)
		}
		m.Tokenizer, m.Metadata, f.Tok = tok, meta, tok
	})
	s.Refused("/infill", `{"input_prefix":"a"}`, 501, "")
	s.Refused("/v1/completions", `{"prompt":"a","suffix":"b"}`, 501, "")
	if _, b, _ := s.Do("GET", "/props", ""); !json.Valid(b) {
		t.Errorf("got %s", b)
	}
}

// Lists are refused at their bound, before what follows is compared with what came before.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	numbered := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ",")
	}
	many := numbered(llamaserver.MaxBranches+1, `"c%d"`) + `,"c0"`
	some := `{"choices":[` + numbered(llamaserver.MaxBranches/2, `"c%d"`) + `]}`
	for _, c := range [][3]string{
		{"/v1/decisions", `{"prompt":"a","choices":[` + many + `]}`, "choices: more than 512"},
		{"/v1/decisions", `{"prompt":"a","questions":[{"choices":[` + many + `]}]}`,
			"questions: element 0: choices: more than 512"},
		{"/v1/decisions", `{"prompt":"a","questions":[` + some + "," + some + `,{"choices":["a","b"]},5]}`,
			"questions: element 2: choices: more than 512 in all"},
		{"/completion", `{"prompt":"a","lora":[` + numbered(65, `{"id":%d}`) + `,{"id":0}]}`, "lora: more than 64"},
		{"/lora-adapters", `[` + numbered(65, `{"id":%d}`) + `,{"id":0}]`, "more than 64"},
	} {
		if status, b, _ := s.Do("POST", c[0], c[1]); status != 400 || !strings.Contains(string(b), c[2]) {
			t.Errorf("%s: %d %s, want %s", c[0], status, b, c[2])
		}
	}
}

// What /slots says of a request, while it runs and after.
func TestRealSlots(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	body := `{"prompt":"Once upon a time there was a little girl who had a big red ball and","n_predict":8,"temperature":-1,"id_slot":2,"ignore_eos":true,"top_k":5}`
	a := fake.Post[map[string]any](s, "/completion", body)
	settings := a["generation_settings"].(map[string]any)
	if settings["temperature"] != 0.0 || a["id_slot"] != 2.0 || a["tokens_predicted"] != 8.0 {
		t.Errorf("got %v", a)
	}
	if b := settings["logit_bias"].([]any); len(b) == 0 {
		t.Errorf("ignore_eos shows as %v", b)
	} else if one := b[0].(map[string]any); len(one) != 2 || one["bias"] != nil || one["token"] == nil {
		t.Errorf("ignore_eos shows as %v", b)
	}
	again := fake.Post[map[string]any](s, "/completion", body)
	_, b, _ := s.Do("GET", "/slots", "")
	one := fake.Parse[[]slot](t, b)[2]
	timings := again["timings"].(map[string]any)
	if again["content"] != a["content"] || timings["cache_n"] == 0.0 {
		t.Errorf("the second answer %v, want the first %v from the cache", again, a)
	}
	if one.Processing || one.Params["top_k"] != 5.0 || len(one.Next) != 1 || one.Next[0].Decoded != 0 ||
		one.Next[0].Remain != -1 || one.Next[0].HasLine != again["has_new_line"] {
		t.Errorf("got %+v", one)
	}
	if float64(one.Cached) != timings["cache_n"] || float64(one.Processed) != timings["prompt_n"] ||
		one.Prompt != one.Cached+one.Processed {
		t.Errorf("%d tokens, %d processed, %d cached: want %v", one.Prompt, one.Processed, one.Cached, timings)
	}
}

// A conversation that ends with an empty message of the assistant is one whose
// turn it is.
func TestRealEmptyLastMessage(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	turns := `{"messages":[{"role":"user","content":"Who are you?"}`
	want := fake.Post[struct{ Prompt string }](s, "/apply-template", turns+"]}").Prompt
	for _, last := range []string{`""`, `"\n"`, `[{"type":"text","text":""}]`} {
		if got := fake.Post[struct{ Prompt string }](s, "/apply-template",
			turns+`,{"role":"assistant","content":`+last+`}]}`).Prompt; got != want {
			t.Errorf("%s: got %q, want %q", last, got, want)
		}
	}
	if got := fake.Post[struct{ Prompt string }](s, "/apply-template",
		turns+`,{"role":"assistant","content":"I am"}]}`).Prompt; !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, "I am") {
		t.Errorf("got %q, want %q with what was said", got, want)
	}
	s.Refused("/apply-template", `{"messages":[{"role":"assistant","content":""}]}`, 400, "messages")
}

// Clients of vLLM ask for the version.
func TestVersion(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	status, b, _ := s.Do("GET", "/version", "")
	if got := fake.Parse[struct {
		Version string `json:"version"`
	}](t, b).Version; status != 200 || got != "test" {
		t.Errorf("%d %s", status, b)
	}
}

func TestContextFull(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	a := fake.Post[map[string]any](s, "/completion",
		fmt.Sprintf(`{"prompt":%q,"ignore_eos":true}`, strings.Repeat("x", 400)))
	if a["truncated"] != true || a["stop_type"] != "limit" {
		t.Errorf("truncated %v, %v", a["truncated"], a["stop_type"])
	}
	if b := s.Last().Bias; len(b) == 0 || b[0].ID != 2 {
		t.Errorf("ignore_eos bans %+v", b)
	}
}

// Slots are shown where the server shows them; all may be busy.
func TestBusySlots(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Delay = 5 * time.Millisecond })
	const all = "/slots?fail_on_no_slot=1"
	if status, b, _ := s.Do("GET", all, ""); status != 200 {
		t.Errorf("%d %s", status, b)
	}
	if status, b, _ := s.Do("GET", "/slots?fail_on_no_slot=maybe", ""); status != 400 {
		t.Errorf("%d %s", status, b)
	}
	c, _ := s.Ignore("/completion", `{"prompt":["a","b","c","d"],"n_predict":-1,"ignore_eos":true,"stream":true}`)
	defer c.Close()
	fake.Eventually(t, "busy", func() bool {
		status, b, _ := s.Do("GET", all, "")
		return status == 503 && fake.ErrorOf(t, b).Message == "no slot is free"
	})
	none := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.NoSlots = true })
	if status, b, _ := none.Do("GET", "/slots", ""); status != 501 || !strings.Contains(string(b), "--slots") {
		t.Errorf("%d %s", status, b)
	}
}

// Each event of a stream has its times where they are asked for; other files of a gap have names or none.
func TestTimesAndFiles(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for _, fields := range []string{``, `,"timings_per_token":true`} {
		events := s.Events("/completion", `{"prompt":"x","stream":true`+fields+`}`)
		for i, data := range events {
			if strings.Contains(data, `"timings":{`) != (fields != "" || i == len(events)-1) {
				t.Errorf("%s: %s", fields, data)
			}
		}
	}
	fake.Post[struct{}](s, "/infill", `{"input_prefix":"a","input_extra":[{"text":"X","more":[1]},{"filename":"x.go","text":"Y"}]}`)
	if got := s.LastPrompt(); !strings.Contains(got, "<|file_sep|>tmp\nX<|file_sep|>x.go\nY") {
		t.Errorf("the prompt is %q", got)
	}
	s.Refused("/infill", `{"input_prefix":"a","input_extra":[{"filename":"x"}]}`, 400, "input_extra")
}
