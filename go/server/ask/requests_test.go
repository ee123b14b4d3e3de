package ask_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tokenizer"
)

// The sooner of the field and the header is the deadline.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for _, c := range []struct {
		header string
		field  int
		want   time.Duration // 0: none
	}{
		{"", 0, 0}, {"", 60_000, time.Minute}, {"90", 0, 90 * time.Second}, {"90", 60_000, time.Minute}, {"90", 120_000, 90 * time.Second},
		{"90s", 0, 90 * time.Second}, {"2m", 0, 2 * time.Minute}, {"0.5", 60_000, 500 * time.Millisecond}, {"1e30", 0, 1e9 * time.Second},
		{"0", 0, -1}, {"-1", 0, -1}, {"soon", 0, -1}, {"NaN", 0, -1}, {"0s", 0, -1}, {"1e999", 0, -1}, {"-1e999", 0, -1},
	} {
		r, _ := http.NewRequest("POST", s.URL+"/completion", strings.NewReader(fmt.Sprintf(`{"prompt":"x","n_predict":0,"deadline_ms":%d}`, c.field)))
		r.Header.Set("X-Request-Timeout", c.header)
		begun := time.Now()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if (resp.StatusCode == 400) != (c.want < 0) {
			t.Errorf("%+v: %d", c, resp.StatusCode)
		}
		if c.want < 0 {
			continue
		}
		if got := s.Last().Deadline; got.IsZero() != (c.want == 0) || c.want > 0 && (got.Before(begun.Add(c.want)) || got.After(time.Now().Add(c.want))) {
			t.Errorf("%+v: the deadline is in %v", c, got.Sub(begun))
		}
	}
}

// What is beyond the model's slots and tokens is refused with the last that there is, which is taken.
func TestLastSlotAndToken(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	n := s.Tok.Len()
	for fields, want := range map[string]string{
		`"id_slot":3`: "", `"id_slot":4`: "id_slot: 4, want -1 to 3",
		fmt.Sprintf(`"logit_bias":[[%d,1]]`, n-1): "", fmt.Sprintf(`"logit_bias":[[%d,1]]`, n): fmt.Sprintf("logit_bias: token %d is not in the vocabulary, want 0 to %d", n, n-1),
		fmt.Sprintf(`"prompt":[1,%d]`, n-1): "", fmt.Sprintf(`"prompt":[1,%d]`, n): fmt.Sprintf("prompt: element 1: token %d is not in the vocabulary, want 0 to %d", n, n-1),
	} {
		if !strings.Contains(fields, "prompt") {
			fields += `,"prompt":"x"`
		}
		status, b, _ := s.Do("POST", "/completion", `{"n_predict":0,`+fields+"}")
		if (status == 200) != (want == "") || want != "" && fake.ErrorOf(t, b).Message != want {
			t.Errorf("%s: %d %s, want %q", fields, status, b, want)
		}
	}
	// A seed that means any is drawn, and told.
	for _, seed := range []string{"-1", "4294967295", "7"} {
		a := fake.Post[struct {
			Settings struct{ Seed uint64 } `json:"generation_settings"`
		}](s, "/completion", `{"prompt":"x","n_predict":0,"seed":`+seed+`}`)
		if got := s.Last().Sampling.Seed; got >= 1<<32-1 || got != a.Settings.Seed || (got == 7) != (seed == "7") {
			t.Errorf("%s: %d, told %d", seed, got, a.Settings.Seed)
		}
	}
	if o, _, err := read(`{"lora":[{"id":5}]}`); err != nil || len(o.LoRA) != 1 || o.LoRA[0].ID != 5 || o.LoRA[0].Scale != 1 {
		t.Errorf("%+v, %v", o.LoRA, err)
	}
	for _, wrong := range []string{`"1"`, `true`, `[]`} {
		if _, _, err := read(`{"n_cache_reuse":` + wrong + `}`); err == nil {
			t.Errorf("n_cache_reuse: %s is taken", wrong)
		}
	}
}

// The tokens of a text are counted up to four contexts, with those before it.
func TestCountedTokens(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	m := s.Model()
	for _, c := range []struct{ ctx, before, fits int }{{512, 0, 2048}, {512, 100, 1948}, {512, 2000, 512}, {0, 0, 1}} {
		m := &ask.Model{Tokenizer: m.Tokenizer, Ctx: c.ctx}
		for n, fits := range map[int]bool{c.fits: true, c.fits + 1: false} {
			ids, err := m.Encode(strings.Repeat("x", n), tokenizer.Options{NoSpecial: true}, c.before)
			long := (*engine.TooLongError)(nil)
			if fits && (err != nil || len(ids) != n) || !fits && (!errors.As(err, &long) || !long.Least || long.Prompt < c.before+n) {
				t.Errorf("%+v: %d tokens: %d, %+v", c, n, len(ids), err)
			}
		}
	}
	if status, b, _ := s.Do("POST", "/completion", `{"prompt":"`+strings.Repeat("x", 3000)+`"}`); status != 400 || !strings.Contains(string(b), "context") {
		t.Errorf("%d %s", status, b)
	}
}

// A conversation as long as four contexts is counted to the token, of a longer one it is said how many there are at
// least; one that is only counted has all.
func TestLengthOfConversations(t *testing.T) {
	t.Parallel()
	m := *fake.New(t, "", nil).Model()
	m.Ctx = 10
	var err error
	if m.Template, err = chat.Parse("{{ messages[0].content }}", chat.SpecialTokens{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		letters int
		counted bool
		ids     int // with BOS; 0: it is too long
	}{{0, false, 1}, {39, false, 40}, {40, false, 0}, {40, true, 41}, {400, true, 401}} {
		conversation := ask.NewConversation()
		conversation.Messages = []chat.Message{{Role: "user", Content: chat.Text(strings.Repeat("x", c.letters))}}
		conversation.Counted = c.counted
		from, err := conversation.Source(t.Context(), &m)
		long := (*engine.TooLongError)(nil)
		if c.ids > 0 && (err != nil || len(from.Prompts[0]) != c.ids) || c.ids == 0 && (!errors.As(err, &long) || !long.Least || long.Prompt != 41) {
			t.Errorf("%+v: %v, %v", c, from.Prompts, err)
		}
	}
}

// The tokens around a gap are found by their spelling where the file has no keys; the first token may be one; files come
// before the gap only where there are some.
func TestGaps(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	one := func(text string) int32 {
		return s.Tok.Encode(text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})[0]
	}
	if got := ask.FindFIM(s.Tok, fileKeys{}); got.Pre != one("<|fim_prefix|>") || got.Suf != one("<|fim_suffix|>") || got.Mid != one("<|fim_middle|>") {
		t.Errorf("by spelling: %+v", got)
	}
	for _, name := range []string{"pre", "suf", "mid"} {
		keys := fileKeys{}
		for i, key := range []string{"pre", "suf", "mid"} {
			keys["tokenizer.ggml.fim_"+key+"_token_id"] = uint32(5 + i)
		}
		keys["tokenizer.ggml.fim_"+name+"_token_id"] = uint32(0)
		m := ask.Model{Tokenizer: s.Tok, Metadata: keys, VectorsOnly: "nothing is generated"}
		m.Complete()
		if !m.Fills() {
			t.Errorf("%s is token 0: it cannot fill in", name)
		}
	}
	ids, err := s.Model().FillIn(ask.Infill{Before: ask.Prompt{{Text: "a"}}, After: "b"})
	want := []int32{1, one("<|fim_prefix|>"), one("a"), one("<|fim_suffix|>"), one("b"), one("<|fim_middle|>")}
	if err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v, want %v", ids, err, want)
	}
}

// A control token that triggers a grammar has to be sent as text, and so be preserved.
func TestTriggersThatArePreserved(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for more, ok := range map[string]bool{
		`[{"type":"word","value":"<|im_end|>"}]`:                                          false,
		`[{"type":"word","value":"<|im_end|>"}],"preserved_tokens":["<|im_end|>"]`:        true,
		`[{"type":"word","value":"<|im_end|>"}],"preserved_tokens":["<|im_start|>","no"]`: false,
		`[{"type":"pattern","value":"<|im_end|>"}]`:                                       true,
		`[{"type":"word","value":"Hello"}]`:                                               true,
		`[{"type":"word","value":"Hello there"}],"preserved_tokens":["Hello"]`:            true,
	} {
		status, b, _ := s.Do("POST", "/completion", `{"prompt":"x","n_predict":1,"grammar":"root ::= \"a\"","grammar_lazy":true,"grammar_triggers":`+more+"}")
		if (status == 200) != ok || !ok && (!strings.Contains(string(b), "want it in preserved_tokens") || fake.ErrorOf(t, b).Param != "grammar_triggers") {
			t.Errorf("%s: %d %s", more, status, b)
		}
	}
}

// A persona is its model with another name and settings, of which what no request could have is left out.
func TestPersona(t *testing.T) {
	t.Parallel()
	parameters, err := persona.ReadParameters([]byte(`{"temperature":0.5,"top_p":7}`))
	if err != nil {
		t.Fatal(err)
	}
	all, wrong := ask.UsablePersona(&persona.Persona{Name: "p", Parameters: parameters})
	if len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "top_p") || len(all.Parameters) != 1 {
		t.Errorf("%v, %v", all.Parameters, wrong)
	}
	m := &ask.Model{Name: "m", Aliases: []string{"n"}}
	as := all.Of(m)
	if as.Name != "p" || as.Aliases != nil || as.Base() != m || m.Base() != m || all.Of(as).Base() != m || (*ask.Persona)(nil).Of(m) != m {
		t.Errorf("%+v", as)
	}
	said := func(p *persona.Persona, roles ...string) string {
		use, err := ask.NewPersona(p)
		if err != nil {
			t.Fatal(err)
		}
		var given []chat.Message
		for _, r := range roles {
			given = append(given, chat.Message{Role: r, Content: chat.Text("of " + r)})
		}
		var all []string
		for _, one := range use.Conversation(given) {
			all = append(all, one.Role+": "+one.Content.Text)
		}
		return strings.Join(all, "; ")
	}
	turns := []persona.Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}}
	for _, c := range []struct {
		p     persona.Persona
		roles []string
		want  string
	}{
		{persona.Persona{}, []string{"system", "user"}, "system: of system; user: of user"},
		{persona.Persona{System: "s"}, []string{"user"}, "system: s; user: of user"},
		{persona.Persona{System: "s"}, []string{"developer", "user"}, "developer: of developer; user: of user"},
		{persona.Persona{Messages: turns}, []string{"user"}, "user: a; assistant: b; user: of user"},
		{persona.Persona{System: "s", Messages: turns}, []string{"system", "user"}, "system: of system; user: a; assistant: b; user: of user"},
		{persona.Persona{Messages: turns[:1]}, []string{"user"}, "user: a; user: of user"},
		{persona.Persona{System: "s"}, []string{"system"}, "system: of system"},
		{persona.Persona{System: "s"}, []string{"system", "developer", "user", "system"}, "system: of system; developer: of developer; user: of user; system: of system"},
	} {
		if got := said(&c.p, c.roles...); got != c.want {
			t.Errorf("%+v, %v: %s, want %s", c.p, c.roles, got, c.want)
		}
	}
}

// Adapters are found by their numbers, and what is removed is one.
func TestAdapters(t *testing.T) {
	t.Parallel()
	var all ask.Adapters
	if _, err := all.Find(0); err == nil || err.Error() != "no adapter 0: the model has none" {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if !all.Claim(name) || all.Claim(name) {
			t.Errorf("%s can be claimed twice, or not at all", name)
		}
		all.Settle(&ask.Adapter{Name: name, Loaded: &engine.Adapter{}}, true)
		if all.Claim(name) {
			t.Errorf("%s is claimed again", name)
		}
	}
	if !all.Claim("d") {
		t.Error("a new name cannot be claimed")
	}
	if all.Settle(&ask.Adapter{Name: "d"}, false); all.Named("d") != nil || !all.Claim("d") {
		t.Error("a name is taken by an adapter that could not be loaded")
	}
	if got := all.Remove("b"); got == nil || got.Name != "b" || all.Remove("b") != nil {
		t.Errorf("removed %+v", got)
	}
	names := ""
	for _, a := range all.All() {
		names += a.Name
	}
	if names != "ac" {
		t.Errorf("%s are left", names)
	}
}

// A tool whose parameters are null is one without, and thoughts belong to the message that they are of.
func TestToolsAndThoughts(t *testing.T) {
	t.Parallel()
	tmpl, err := chat.Parse(fake.ChatML, chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	s := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Template = tmpl })
	var prompts []string
	for _, parameters := range []string{"", `,"parameters":null`} {
		fake.Post[struct{}](s, "/v1/chat/completions", `{`+fake.Hi+`,"tools":[{"type":"function","function":{"name":"f"`+parameters+`}}],"max_tokens":1}`)
		prompts = append(prompts, s.LastPrompt())
	}
	if prompts[0] != prompts[1] || !strings.Contains(prompts[0], `"name"`) {
		t.Errorf("%q", prompts)
	}
	var c ask.Transcript
	c.Think("one ")
	c.Think("two")
	c.Add("user", chat.Part{Text: "x"})
	c.Think("three")
	if got := []string{c.Messages[0].ReasoningContent, c.Messages[2].ReasoningContent}; got[0] != "one two" || got[1] != "three" {
		t.Errorf("%q", got)
	}
}
