package ask_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tokenizer"
)

// What the engine is asked is what the fields say, or else the model, with special values resolved.
func TestWhatTheEngineIsAsked(t *testing.T) {
	t.Parallel()
	seed := uint32(77)
	usual := fake.New(t, "Hello", nil)
	own := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, _ *fake.Engine) {
		m.Seed, m.MaxTokens, m.Keep, m.ReasoningFormat = &seed, 5, 3, "none"
		m.Sampling.DryBase, m.Sampling.Temp, m.Sampling.Chain = 0.5, 0.25, "kt"
	})
	show := func(r *engine.Request) string {
		p := r.Sampling
		return fmt.Sprintf("temp %g, typical %g, chain %q, dynamic %g, dry %g breakers %v, infill %v, most %d, slot %d, priority %d, cache %v, keep %d, discard %d, shift %v, top %d",
			p.Temp, p.TypicalP, p.Chain, p.DynRange, p.DryBase, p.DryBreakers != nil, p.Infill != nil, r.MaxTokens, r.Slot, r.Priority, !r.NoCache,
			r.Keep, r.Discard, !r.NoShift, r.TopLogprobs)
	}
	const rest = ", most -1, slot -1, priority 0, cache true, keep 1, discard 0, shift true, top -1"
	for _, c := range []struct {
		s            *fake.Site
		fields, want string
	}{
		{usual, ``, `temp 0.8, typical 1, chain "", dynamic 0, dry 1.75 breakers false, infill false` + rest},
		{usual, `"typ_p":50,"temperature":-5`, `temp 0, typical 1, chain "", dynamic 0, dry 1.75 breakers false, infill false` + rest},
		{usual, `"typ_p":0.5,"temperature":1.5`, `temp 1.5, typical 0.5, chain "", dynamic 0, dry 1.75 breakers false, infill false` + rest},
		{usual, `"samplers":[],"dynatemp_range":0.5`, `temp 1, typical 1, chain "t", dynamic 0, dry 1.75 breakers false, infill false` + rest},
		{usual, `"samplers":"","temperature":0.1`, `temp 1, typical 1, chain "t", dynamic 0, dry 1.75 breakers false, infill false` + rest},
		{usual, `"samplers":"ki","dry_base":0.5`, `temp 0.8, typical 1, chain "ki", dynamic 0, dry 1.75 breakers false, infill true` + rest},
		{usual, `"dry_multiplier":1,"dry_base":1`, `temp 0.8, typical 1, chain "", dynamic 0, dry 1 breakers true, infill false` + rest},
		{usual, `"dry_multiplier":1,"dry_sequence_breakers":["x"]`, `temp 0.8, typical 1, chain "", dynamic 0, dry 1.75 breakers true, infill false` + rest},
		{usual, `"dry_multiplier":1,"dry_sequence_breakers":[]`, `temp 0.8, typical 1, chain "", dynamic 0, dry 1.75 breakers false, infill false` + rest},
		{own, ``, `temp 0.25, typical 1, chain "kt", dynamic 0, dry 1 breakers false, infill false, most 5, slot -1, priority 0, cache true, keep 4, discard 0, shift true, top -1`},
		{own, `"max_tokens":7,"id_slot":2,"priority":4,"cache_prompt":false,"n_keep":0,"n_discard":6,"n_probs":0`,
			`temp 0.25, typical 1, chain "kt", dynamic 0, dry 1 breakers false, infill false, most 7, slot 2, priority 4, cache false, keep 1, discard 6, shift true, top -1`},
		{usual, `"n_probs":3`, strings.Replace(`temp 0.8, typical 1, chain "", dynamic 0, dry 1.75 breakers false, infill false`+rest, "top -1", "top 3", 1)},
	} {
		fake.Post[struct{}](c.s, "/completion", strings.TrimSuffix(`{"prompt":"x",`+c.fields, ",")+"}")
		if got := show(c.s.Last()); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.fields, got, c.want)
		}
	}
	fake.Post[[]struct{}](own, "/completion", `{"prompt":"x","n":3,"n_predict":1}`)
	var seeds []int
	for _, r := range own.Requests[len(own.Requests)-3:] {
		seeds = append(seeds, int(r.Sampling.Seed))
	}
	if slices.Sort(seeds); !slices.Equal(seeds, []int{77, 78, 79}) {
		t.Errorf("seeds %v", seeds)
	}
	if r := own.Last(); r.Stop == nil || !r.Stop(2) {
		t.Error("an answer does not end with EOS")
	}
	fake.Post[struct{}](own, "/completion", `{"prompt":"x","ignore_eos":true}`)
	if own.Last().Stop != nil {
		t.Error("EOS is not ignored")
	}
	o := ask.NewOptions(own.Model())
	if o.Thinking != "none" {
		t.Errorf("reasoning goes to %s", o.Thinking)
	}
	for of, want := range map[int]int{-1: -1, 0: -1, 1: 1} {
		if l := ask.NewLimits(&ask.Model{MaxTokens: of}); l.MaxTokens != want {
			t.Errorf("a model of %d tokens at most: %d", of, l.MaxTokens)
		}
	}
}

// The settings that answers show are those of the request; a seed that is to be drawn is shown as any.
func TestSettings(t *testing.T) {
	t.Parallel()
	m := &ask.Model{Sampling: sample.Defaults()}
	o := ask.NewOptions(m)
	got := o.Settings()
	for name, want := range map[string]any{"seed": 1<<32 - 1, "n_probs": 0, "reasoning_in_content": false, "speculative.types": o.Speculation.Sources.String(),
		"chat_format": "Content-only", "generation_prompt": "", "backend_sampling": false, "max_tokens": -1, "n_predict": -1} {
		if fmt.Sprint(got[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	o, _, err := read(`{"seed":5,"n_probs":4,"reasoning_format":"deepseek-legacy","speculative.types":"none","stop":"a","grammar_lazy":true,"grammar":"root ::= \"a\"",
		"grammar_triggers":[{"type":"token","token":7},{"type":"word","value":"w"}],"samplers":"k","lora":[{"id":5,"scale":2}]}`)
	if err != nil {
		t.Fatal(err)
	}
	got = o.Settings()
	for name, want := range map[string]any{"seed": 5, "n_probs": 4, "reasoning_in_content": true, "speculative.types": "none", "stop": "[a]", "grammar": `root ::= "a"`,
		"grammar_triggers": "[map[token:7 type:0 value:] map[type:1 value:w]]", "samplers": "[top_k]", "lora": "[{5 2}]"} {
		if fmt.Sprint(got[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got["json_schema"] != nil || got["model"] != nil {
		t.Errorf("inputs are shown: %v", got)
	}
}

// A conversation is the assistant's to answer, or to go on with where its last message is the assistant's.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	m := *s.Model()
	var err error
	if m.Template, err = chat.Parse("{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"+
		"{% if add_generation_prompt %}>{% endif %}{% for t in tools or [] %} tool {{ t.function.name }}{% endfor %}"+
		"{% if x is defined %} x {{ x }}{% endif %}{% if reasoning_effort is defined %} {{ reasoning_effort }}{% endif %}"+
		"{% if enable_thinking is defined and not enable_thinking %} quick{% endif %}", chat.SpecialTokens{}); err != nil {
		t.Fatal(err)
	}
	said := func(turns ...string) string {
		var all []string
		for _, one := range turns {
			role, text, _ := strings.Cut(one, ":")
			full := map[string]string{"u": "user", "a": "assistant", "c": "assistant", "s": "system"}[role]
			calls := ""
			if role == "c" {
				calls = `,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]`
			}
			all = append(all, fmt.Sprintf(`{"role":%q,"content":%q%s}`, full, text, calls))
		}
		return `"messages":[` + strings.Join(all, ",") + `]`
	}
	const u, a = "[user:hi]", "[assistant:so"
	const together = "continue_final_message: true together with add_generation_prompt, want one of them"
	const notLast = "continue_final_message: the last message is not the assistant's, want one that is"
	const two = "messages: two messages of the assistant at the end, want one at most to go on with"
	tools := `,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`
	for _, c := range []struct{ body, want string }{
		{said("u:hi"), u + ">"}, {said("u:hi") + `,"add_generation_prompt":false`, u}, {said("u:hi") + `,"add_generation_prompt":true`, u + ">"},
		{said("u:hi", "a:so"), u + a}, {said("u:hi", "a:so") + `,"continue_final_message":false`, u + a + "]>"},
		{said("u:hi", "a:so") + `,"continue_final_message":true`, u + a}, {said("u:hi", "a:so") + `,"add_generation_prompt":true`, u + a},
		{said("u:hi", "a:so") + `,"add_generation_prompt":false`, u + a}, {said("u:hi", "a:so") + `,"continue_final_message":false,"add_generation_prompt":true`, u + a + "]>"},
		{said("u:hi", "a:so") + `,"continue_final_message":true,"add_generation_prompt":true`, together},
		{said("u:hi") + `,"continue_final_message":true,"add_generation_prompt":true`, together},
		{said("u:hi", "a:so") + `,"continue_final_message":true,"add_generation_prompt":false`, u + a},
		{said("u:hi") + `,"continue_final_message":true`, notLast}, {said("u:hi") + `,"continue_final_message":false`, u + ">"},
		{said("u:hi", "c:so"), u + a + " and calls ]>"}, {said("u:hi", "a:no", "a:so"), two}, {said("u:hi", "a:no", "a:so") + `,"continue_final_message":false`, u + "[assistant:no]" + a + "]>"},
		{said("a:so"), a}, {said("a: "), "messages: only an empty one of the assistant, want one to answer"}, {said("a:so", "a:so"), two},
		{said("u:hi") + tools, u + "> tool f tool g"}, {said("u:hi") + tools + `,"tool_choice":"none"`, u + ">"},
		{said("u:hi") + `,"chat_template_kwargs":{"x":[1]}`, u + "> x [1]"}, {said("u:hi") + `,"reasoning_effort":"low"`, u + "> low"},
		{said("u:hi") + `,"reasoning_effort":"none"`, u + "> quick"},
		{said("u:hi") + `,"tool_choice":"required"`, "tool_choice: given without tools, want some in tools"},
		{said("u:hi") + `,"tool_choice":{"type":"function","function":{"name":"f"}}`, "tool_choice: given without tools, want some in tools"},
		{said("u:hi") + `,"function_call":{"name":"f"}`, "function_call: given without tools, want some in tools"},
		{said("u:hi") + tools + `,"function_call":{"name":"h"}`, `function_call: no tool has the name "h"`},
		{said("u:hi") + tools + `,"tool_choice":{"type":"function","function":{"name":"h"}}`, `tool_choice: no tool has the name "h"`},
		{said("u:hi") + tools + `,"functions":[{"name":"h"}]`, "functions: given together with tools, want one of them"},
		{said("u:hi") + `,"functions":[{"name":"h"}]` + tools, "functions: given together with tools, want one of them"},
		{said("u:hi") + `,"functions":[{"name":"h"}]`, u + "> tool h"},
		{said("u:hi") + tools + `,"tool_choice":"auto","function_call":"auto"`, "function_call: given together with tool_choice, want one of them"},
		{said("u:hi") + tools + `,"function_call":"auto","tool_choice":"auto"`, "function_call: given together with tool_choice, want one of them"},
	} {
		_, conversation, err := read("{" + c.body + "}")
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		p, err := conversation.Render(t.Context(), &m)
		got := p.Text
		if err != nil {
			got = err.Error()
		}
		if before, _, calls := strings.Cut(c.want, " and calls "); calls && strings.HasPrefix(got, before) && strings.HasSuffix(got, "]>") {
			continue
		}
		if strings.TrimSuffix(got, "]") != strings.TrimSuffix(c.want, "]") || strings.HasSuffix(got, "]>") != strings.HasSuffix(c.want, "]>") {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

// A bound of the reasoning is of models that think, and what ends it is the message as it is and the model's mark.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Template = fake.Template(t, true) })
	m := s.Model()
	of := func(m *ask.Model, fields string) (*chat.Prompt, string) {
		_, c, err := read("{" + fake.Hi + fields + "}")
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Render(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if b := c.Budget.Of(m, nil); b != nil {
			t.Errorf("of no chat: %+v", b)
		}
		b := c.Budget.Of(m, &p)
		if b == nil {
			return &p, "none"
		}
		var kinds []string
		for _, id := range b.Closing {
			kinds = append(kinds, fmt.Sprint(m.Tokenizer.TokenType(id) == tokenizer.Control))
		}
		spelled := ""
		b.Spell(270, func(c byte) { spelled += string(c) })
		if b.N != m.Tokenizer.Len() || spelled != "Hello" || !b.Begun || b.Open == "" || b.Shut == "" {
			t.Errorf("%s: %+v, %q", fields, b, spelled)
		}
		return &p, fmt.Sprintf("%d then %s%v", b.Tokens, m.Tokenizer.Detokenize(b.Closing, true), slices.Contains(kinds, "true"))
	}
	for fields, want := range map[string]string{
		"": "none", `,"reasoning_budget_tokens":-1`: "none", `,"reasoning_budget":5`: "5 then </think>false", `,"thinking_budget_tokens":0`: "0 then </think>false",
		`,"reasoning_control":true`:                                                      "-1 then </think>false",
		`,"reasoning_budget":5,"reasoning_budget_message":"<|im_end|>ok"`:                "5 then <|im_end|>ok</think>false",
		`,"reasoning_budget":5,"reasoning_budget_message":"ok<|im_end|>"`:                "5 then ok<|im_end|></think>false",
		`,"reasoning_budget":5,"chat_template_kwargs":{"enable_thinking":false}`:         "none",
		`,"reasoning_budget":5,"reasoning_effort":"none","reasoning_budget_message":"x"`: "none",
	} {
		if _, got := of(m, fields); got != want {
			t.Errorf("%s: %s, want %s", fields, got, want)
		}
	}
}

// Prompts are counted, cut and echoed as what they are: texts and ids.
func TestPrompts(t *testing.T) {
	t.Parallel()
	meta := fake.Vocabulary(fake.Controls)
	meta["tokenizer.ggml.add_eos_token"] = true
	ends := &ask.Model{Tokenizer: fake.Tokenizer(t, meta), Ctx: 512}
	bare := fake.Vocabulary(fake.Controls)
	bare["tokenizer.ggml.add_bos_token"] = false
	plain := &ask.Model{Tokenizer: fake.Tokenizer(t, bare), Ctx: 512}
	usual := fake.New(t, "", nil).Model()
	prompt := func(body string) ask.Prompt {
		t.Helper()
		var p ask.Prompts
		if err := readPrompts(body, &p); err != nil || len(p) != 1 {
			t.Fatalf("%s: %v", body, err)
		}
		return p[0]
	}
	mixed := prompt(`["ab",100,101,"Hello",7]`)
	if n := mixed.Size(); n.Ids != 3 || n.Bytes != 7 || mixed.String(usual) != "ababHello\x04" {
		t.Errorf("%+v, %q", n, mixed.String(usual))
	}
	for _, c := range []struct {
		m    *ask.Model
		body string
		want []int32
	}{
		{usual, `["ab",100,"Hello"]`, []int32{1, 100, 101, 100, 270}}, {usual, `[100,"a"]`, []int32{100, 100}}, {usual, `""`, []int32{1}},
		{usual, `[1,1]`, []int32{1, 1}}, {usual, `[1,"<s>"]`, []int32{1, 1}}, {usual, `"<s>"`, []int32{1}}, {usual, `["<s>",7]`, []int32{1, 7}},
		{ends, `"a"`, []int32{1, 100, 2}}, {plain, `"a"`, []int32{100}},
	} {
		p := prompt(c.body)
		all, err := p.Encode(t.Context(), c.m)
		if err != nil || !slices.Equal(all.IDs, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.body, all, err, c.want)
		}
		for n := 1; n <= len(c.want)+1; n++ {
			want := slices.Clone(c.want[:min(n, len(c.want))])
			if c.m == ends && n > 1 {
				want[len(want)-1] = 2
			}
			if ids, err := p.EncodeCut(c.m, "x", n); err != nil || !slices.Equal(ids, want) {
				t.Errorf("%d of %s: %v, %v, want %v", n, c.body, ids, err, want)
			}
		}
	}
	none := fake.Vocabulary(fake.Controls)
	delete(none, "tokenizer.ggml.bos_token_id")
	none["tokenizer.ggml.model"], none["tokenizer.ggml.merges"] = "gpt2", []string{}
	if ids, err := prompt(`""`).Encode(t.Context(), &ask.Model{Tokenizer: fake.Tokenizer(t, none), Ctx: 512}); err == nil ||
		err.Error() != "prompt: empty, want some text: this model has no token to begin with" {
		t.Errorf("nothing to begin with: %v, %v", ids, err)
	}
	if _, err := prompt(`"`+strings.Repeat("x", 5000)+`"`).Encode(t.Context(), usual); err == nil {
		t.Error("a text much longer than the context has tokens")
	}
}

// Files come before a gap by their names where the vocabulary has tokens for that, else as texts; the suffix may be first.
func TestFilesAroundGaps(t *testing.T) {
	t.Parallel()
	in := ask.Infill{Files: []ask.File{{Name: "a.go", Text: "A"}, {Name: "b.go", Text: "B"}}, Before: ask.Prompt{{Text: "x"}, {Ids: []int32{103}}}, After: "y", Begin: "z"}
	without := func(names ...string) *ask.Model {
		var controls []string
		for _, c := range fake.Controls {
			if !slices.Contains(names, c) {
				controls = append(controls, c)
			}
		}
		meta := fake.Vocabulary(controls)
		m := &ask.Model{Tokenizer: fake.Tokenizer(t, meta), Metadata: meta, Ctx: 512, VectorsOnly: "nothing is generated"}
		m.Complete()
		return m
	}
	const gap = "<|fim_prefix|>xd<|fim_suffix|>y<|fim_middle|>z"
	const named = "<|repo_name|>myproject\n<|file_sep|>a.go\nA<|file_sep|>b.go\nB<|file_sep|>filename\n"
	for want, m := range map[string]*ask.Model{named + gap: without(), "AB" + gap: without("<|file_sep|>")} {
		ids, err := m.FillIn(in)
		if got := m.Tokenizer.Detokenize(ids, true); err != nil || got != "<s>"+want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	m := without("<|repo_name|>")
	m.SuffixFirst = true
	ids, err := m.FillIn(in)
	if got := m.Tokenizer.Detokenize(ids, true); err != nil || got != "<s>AB<|fim_suffix|>y<|fim_prefix|>xd<|fim_middle|>z" {
		t.Errorf("%q, %v", got, err)
	}
	for _, missing := range []string{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"} {
		if _, err := without(missing).FillIn(in); err == nil || !strings.HasPrefix(err.Error(), "this model cannot fill in") {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	in.After = strings.Repeat("x", 3000)
	if _, err := without().FillIn(in); !errors.As(err, new(*engine.TooLongError)) {
		t.Errorf("%v", err)
	}
}

// A request's parameters are before those of its persona, which are before the server's; a form of the server's is replaced
// by any of the request's.
func TestDefaultsOfPersonas(t *testing.T) {
	t.Parallel()
	parameters, err := persona.ReadParameters([]byte(`{"temperature":0.5,"top_k":7}`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ask.NewPersona(&persona.Persona{Name: "p", Parameters: parameters})
	if err != nil {
		t.Fatal(err)
	}
	s := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, _ *fake.Engine) {
		if m.Defaults, err = server.ReadDefaults([]byte(`{"temperature":0.1,"top_p":0.25,"grammar":"root ::= \"Hello\""}`)); err != nil {
			t.Error(err)
		}
	})
	s.Server.SetPersonas([]catalog.Persona{{Persona: p, Base: "fake/model"}})
	for fields, want := range map[string][2]float64{"": {0.5, 7}, `,"temperature":2,"guided_regex":"Hel+o"`: {2, 7}, `,"top_k":9,"grammar":"root ::= \"He\""`: {0.5, 9}} {
		fake.Post[struct{}](s, "/completion", `{"model":"p","prompt":"x"`+fields+`}`)
		if r := s.Last(); float64(r.Sampling.Temp) != want[0] || float64(r.Sampling.TopK) != want[1] || r.Sampling.TopP != 0.25 || r.Constraint == nil {
			t.Errorf("%s: %+v, constraint %v", fields, r.Sampling, r.Constraint != nil)
		}
	}
	wrong, err := persona.ReadParameters([]byte(`{"top_p":7}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask.NewPersona(&persona.Persona{Name: "p", Parameters: wrong}); err == nil || !strings.HasPrefix(err.Error(), "parameters: top_p: 7, want") {
		t.Errorf("%v", err)
	}
}

// Adapters apply as a request lists them, else as it names one, else as they are scaled for all.
func TestAppliedAdapters(t *testing.T) {
	t.Parallel()
	loaded := &engine.Adapter{}
	m := &ask.Model{LoRA: &ask.Adapters{}}
	if got, err := m.Applied(nil, nil); got != nil || err != nil {
		t.Errorf("of none: %v, %v", got, err)
	}
	m.LoRA.Settle(&ask.Adapter{Name: "poet", Scale: 3, Applied: 0.5, Loaded: loaded}, true)
	m.LoRA.Settle(&ask.Adapter{Name: "lost"}, false)
	poet := m.LoRA.Named("poet")
	if poet == nil || m.LoRA.Named("lost") != nil {
		t.Fatalf("%+v", m.LoRA.All())
	}
	uses := func(body string) ask.AdapterUses {
		o, _, err := read(`{"lora":` + body + `}`)
		if err != nil {
			t.Fatal(err)
		}
		return o.LoRA
	}
	for _, c := range []struct {
		named *ask.Adapter
		uses  ask.AdapterUses
		want  []float32
	}{{nil, nil, []float32{0.5}}, {poet, nil, []float32{3}}, {poet, uses(`[{"id":0,"scale":2}]`), []float32{2}}, {nil, uses(`[{"id":0}]`), []float32{1}}, {poet, uses(`[]`), nil}} {
		list, err := m.Applied(c.named, c.uses)
		var got []float32
		for _, a := range list {
			if got = append(got, a.Scale); a.Adapter != loaded {
				t.Error("another adapter")
			}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v, want %v", got, err, c.want)
		}
	}
	if _, err := m.Applied(nil, uses(`[{"id":1}]`)); err == nil || err.Error() != "lora: no adapter 1, want one of 0" {
		t.Errorf("%v", err)
	}
	for body, want := range map[string]float32{`[{"id":0,"scale":-2}]`: -2, `[{"id":4,"scale":9}]`: 0, `[]`: 0} {
		before := m.LoRA.Named("poet")
		m.LoRA.Scale(uses(body))
		if a := m.LoRA.Named("poet"); a.Applied != want || a.Scale != 3 || a == before {
			t.Errorf("%s: %+v", body, a)
		}
	}
}

// What is not supported is refused unless it asks for nothing, and a form that begins late has to be told when.
func TestNeutralsAndTriggers(t *testing.T) {
	t.Parallel()
	one := []field.Field{field.Setting("x", ask.Neutral{Is: 1, Ok: func(v any) bool { return v == 1.0 || v == nil }, Want: "1"}, "")}
	idle := []field.Field{field.Setting("x", new(ask.Idle), "")}
	for body, ok := range map[string]bool{`{"x":-1.5}`: true, `{"x":1e300}`: true, `{"x":1e999}`: false, `{"x":-1e999}`: false, `{"x":true}`: false} {
		if err := field.ReadSome([]byte(body), idle); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
	for body, want := range map[string]string{`{"x":1}`: "", `{"x":null}`: "", `{"x":2}`: "x: 2 is not supported yet, want 1", `{"x":[1}`: "x: the body is not JSON"} {
		if err := field.ReadSome([]byte(body), one); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	s := fake.New(t, "Hello", nil)
	many := func(n int) string { return `["a"` + strings.Repeat(`,"a"`, n-1) + `]` }
	for fields, want := range map[string]string{
		`"grammar":"root ::= \"a\"","grammar_lazy":true`:  "grammar_triggers: missing, want the triggers of grammar_lazy",
		`"grammar":"root ::= \"a\"","grammar_lazy":false`: "", `"preserved_tokens":` + many(1024): "",
		`"preserved_tokens":` + many(1025): "preserved_tokens: 1025 texts, want at most 1024",
	} {
		status, b, _ := s.Do("POST", "/completion", `{"prompt":"x","n_predict":1,`+fields+`}`)
		if (status == 200) != (want == "") || want != "" && fake.ErrorOf(t, b).Message != want {
			t.Errorf("%.60s: %d %.200s, want %q", fields, status, b, want)
		}
	}
	var c ask.Transcript
	if c.Say(); len(c.Messages) != 1 || !c.Messages[0].Content.Null {
		t.Errorf("nothing said is %+v", c.Messages)
	}
}

// What holds an answer is what the fields say, and nothing where they say nothing.
func TestFormsOfFields(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "", nil).Model()
	const none = `kind 0 "" [] space "" compact false exact false triggers 0 preserved []`
	with := func(changes ...string) string { return strings.NewReplacer(changes...).Replace(none) }
	word := `,"grammar_triggers":[{"type":"word","value":"w"}],"preserved_tokens":["<|im_end|>","<|im_end|>x","Hello","no"]`
	for fields, want := range map[string]string{
		``: none, `"grammar":""`: none, `"structured_outputs":{"json_object":false,"regex":null}`: none, `"response_format":{"type":"text","schema":null}`: none,
		`"grammar":"g"`:      with(`kind 0 ""`, `kind 0 "g"`),
		`"guided_regex":"r"`: with(`kind 0 ""`, `kind 2 "r"`), `"structured_outputs":{"regex":"r"}`: with(`kind 0 ""`, `kind 2 "r"`),
		`"guided_choice":["a","b"]`: with(`kind 0 "" []`, `kind 3 "" [a b]`), `"structured_outputs":{"choice":["a"]}`: with(`kind 0 "" []`, `kind 3 "" [a]`),
		`"structured_outputs":{"structural_tag":"t"}`: with(`kind 0 ""`, `kind 4 "t"`), `"structured_outputs":{"structural_tag":{"a":1}}`: with(`kind 0 ""`, `kind 4 "{\"a\":1}"`),
		`"response_format":{"type":"structural_tag","b":2}`: with(`kind 0 ""`, `kind 4 "{\"type\":\"structural_tag\",\"b\":2}"`),
		`"json_schema":{"a":1}`:                             with(`kind 0 ""`, `kind 1 "{\"a\":1}"`), `"guided_json":"{}"`: with(`kind 0 ""`, `kind 1 "{}"`),
		`"structured_outputs":{"json_object":true}`: with(`kind 0 ""`, `kind 1 "{\"type\":\"object\"}"`), `"response_format":{"type":"json_object"}`: with(`kind 0 ""`, `kind 1 "{\"type\":\"object\"}"`),
		`"response_format":{"type":"json_object","value":{"a":1}}`:                                   with(`kind 0 ""`, `kind 1 "{\"a\":1}"`),
		`"structured_outputs":{"disable_any_whitespace":true,"disable_additional_properties":false}`: with("compact false", "compact true"),
		`"guided_schema":"exact"`: with("exact false", "exact true"), `"guided_schema":"exact","structured_outputs":{"disable_additional_properties":true}`: none,
		`"structured_outputs":{"whitespace_pattern":" "},"guided_json":true`: with(`kind 0 ""`, `kind 1 "true"`, `space ""`, `space " "`),
		`"grammar_lazy":true` + word:                                         with("triggers 0", "triggers 1", "preserved []", fmt.Sprintf("preserved [%d]", m.Tokenizer.Encode("<|im_end|>", tokenizer.Options{NoSpecial: true, ParseSpecial: true})[0])),
		`"grammar_lazy":false` + word:                                        none,
	} {
		o, _, err := read("{" + fields + "}")
		if err == nil {
			err = o.Settle(m, nil)
		}
		if err == nil && o.Form.Kind == 0 && o.Form.Text == "" {
			err = o.Form.Settle(t.Context(), m, ask.Source{}, true, "my")
		} else { // whose texts need not compile
			_ = o.Form.Settle(t.Context(), m, ask.Source{}, true, "my")
		}
		f := o.Form.Form
		got := fmt.Sprintf("kind %d %q %v space %q compact %v exact %v triggers %d preserved %v", f.Kind, f.Text, f.Choices, f.Space, f.Compact, f.Exact,
			len(f.Triggers), f.Preserved)
		if err != nil || got != want || f.Namespace != "my" {
			t.Errorf("%s: %s, %v, want %s", fields, got, err, want)
		}
		if r := o.Request(m, nil, 0); f.Kind == 0 && f.Text == "" && r.Constraint != nil {
			t.Errorf("%s: the answer is constrained", fields)
		}
	}
	if o, c, err := read(`{"guided_regex":"a+"}`); err != nil || o.Form.Settle(t.Context(), m, ask.Source{}, true, "") != nil || o.Request(m, nil, 0).Constraint == nil || c.Begun {
		t.Error("a form without a constraint")
	}
}

// The sum of the biases of each token is used, by token; of what is banned no other makes more.
func TestBiasesOfTokens(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "", nil).Model()
	hello, ends := m.Tokenizer.Encode("Hello", tokenizer.Options{NoSpecial: true})[0], ""
	for _, id := range slices.Sorted(slices.Values(m.Tokenizer.EOG())) {
		ends += fmt.Sprintf("%d:-Inf ", id)
	}
	for fields, want := range map[string]string{
		`"logit_bias":{"9":1,"3":-2,"7":0.5,"5":1,"4":1,"8":1,"6":1,"+3":1}`: "3:-1 4:1 5:1 6:1 7:0.5 8:1 9:1 ",
		`"logit_bias":[["Hello",1.5],["Hello",1],["aa",2],[9,false],[9,5]]`:  fmt.Sprintf("9:-Inf 100:4 %d:2.5 ", hello),
		`"ignore_eos":true,"logit_bias":[[2,7]]`:                             ends, `"ignore_eos":true`: ends, `"logit_bias":{}`: "", `"logit_bias":[[0,1]]`: "0:1 ", `"logit_bias":{"0":1}`: "0:1 ",
		`"logit_bias":{"<|im_end|>":1}`: fmt.Sprintf("%d:1 ", m.Tokenizer.Encode("<|im_end|>", tokenizer.Options{NoSpecial: true, ParseSpecial: true})[0]),
	} {
		o, _, err := read("{" + fields + "}")
		if err == nil {
			err = o.Settle(m, nil)
		}
		got := ""
		for _, b := range o.Request(m, nil, 0).Bias {
			got += fmt.Sprintf("%d:%g ", b.ID, b.Value)
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", fields, got, err, want)
		}
	}
}

// What automata of a model's vocabulary take is told once there are some.
func TestGrammarsOfModels(t *testing.T) {
	t.Parallel()
	m := *fake.New(t, "", nil).Model()
	m.VectorsOnly = "nothing is made beforehand"
	if m.Complete(); m.Grammars() != 0 {
		t.Errorf("%d bytes of none", m.Grammars())
	}
	o, _, err := read(`{"grammar":"root ::= [a-z]+ \"x\""}`)
	if err != nil || o.Form.Settle(t.Context(), &m, ask.Source{}, true, "") != nil || m.Grammars() == 0 {
		t.Errorf("%v, %d bytes of one", err, m.Grammars())
	}
}

// Adapters are in the order of their numbers, whichever came first.
func TestOrderOfAdapters(t *testing.T) {
	t.Parallel()
	path := testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf")
	s := fake.Demo(t, fake.Setup{File: testdata.Path(t, "models/TinyStories-656K-f32.gguf"), Model: func(m *ask.Model) {
		for i := range 3 {
			a, err := m.Engine.OpenAdapter(path)
			if err != nil {
				t.Fatal(err)
			}
			m.Adapters = slices.Insert(m.Adapters, 0, ask.Adapter{Name: fmt.Sprint("of ", i), Scale: float32(i), Loaded: a})
		}
	}})
	m := s.Model()
	for i, a := range m.LoRA.All() {
		if a.Loaded.Number() != i || a.Scale != float32(i) {
			t.Errorf("%d: number %d, %s", i, a.Loaded.Number(), a.Name)
		}
		if one, err := m.LoRA.Find(i); err != nil || one != a {
			t.Errorf("%d: %v, %v", i, one, err)
		}
	}
	if _, err := m.LoRA.Find(3); err == nil || err.Error() != "no adapter 3, want one of 0, 1, 2" {
		t.Errorf("%v", err)
	}
	m.LoRA.Scale(ask.AdapterUses{{ID: 1, Scale: 0.5}, {ID: 2, Scale: 2}})
	var applied []float32
	for _, a := range m.Usual(nil) {
		applied = append(applied, a.Scale)
	}
	if !slices.Equal(applied, []float32{0, 0.5, 2}) {
		t.Errorf("applied %v", applied)
	}
}
