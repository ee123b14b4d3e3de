package form_test

import (
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/grammar"
)

// What is asked for again is found before it is read, and nothing else is found in its place.
func TestFoundByItsText(t *testing.T) {
	tok := demoTokenizer(t)
	v := form.Vocabulary(tok)
	prompt := func(source, tools string) *chat.Prompt {
		t.Helper()
		tmpl, err := chat.Parse(source, chat.SpecialTokens{})
		if err != nil {
			t.Fatal(err)
		}
		in := chat.Input{Messages: []chat.Message{{Role: "user", Content: chat.Text("x")}}, AddGenerationPrompt: true}
		if tools != "" {
			in.Tools = append(in.Tools, []byte(tools))
		}
		p, err := tmpl.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	const plain = `{{ messages[0].content }}{{ tools }}`
	tool := func(schema string) string {
		return `{"type":"function","function":{"name":"f","parameters":` + schema + `}}`
	}
	type request struct {
		form   *form.Form
		prompt *chat.Prompt
		calls  *chat.CallRule
	}
	schema := func(change func(f *form.Form)) *form.Form {
		f := &form.Form{Kind: form.Schema, Text: `{"type":"object","properties":{"a":{"type":"null"}}}`}
		change(f)
		return f
	}
	same := func(*form.Form) {}
	requests := []request{
		{form: schema(same)},
		{form: schema(func(f *form.Form) { f.Exact = true })},
		{form: schema(func(f *form.Form) { f.Compact = true })},
		{form: schema(func(f *form.Form) { f.Space = " *" })},
		{form: schema(func(f *form.Form) { f.Namespace = "other" })},
		{form: schema(func(f *form.Form) { f.Triggers = []form.Trigger{} })},
		{form: schema(func(f *form.Form) { f.Triggers = []form.Trigger{{Kind: form.WordTrigger, Text: "{"}} })},
		{form: &form.Form{Kind: form.Choice, Choices: []string{"a", "b"}}},
		{form: &form.Form{Kind: form.Choice, Choices: []string{"a3 b"}}},
		{form: schema(same), prompt: prompt(plain+"{% if false %}<think></think>{% endif %}", "")},
		{prompt: prompt(plain, tool(`{"type":"object"}`)), calls: &chat.CallRule{}},
		{prompt: prompt(plain, tool(`{"type":"object"}`)), calls: &chat.CallRule{Required: true}},
		{prompt: prompt(plain, tool(`{"type":"object"}`)), calls: &chat.CallRule{Required: true, Single: true}},
		{prompt: prompt(plain, tool(`{"type":"object","maxProperties":0}`)), calls: &chat.CallRule{Required: true}},
	}
	found := map[*constrain.Automaton]int{}
	for i, r := range requests {
		first, err := r.form.Compile(t.Context(), tok, v, r.prompt, r.calls)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if before, is := found[first]; is {
			t.Errorf("%d is taken for %d", i, before)
		}
		found[first] = i
		again, err := r.form.Compile(t.Context(), tok, v, r.prompt, r.calls)
		if err != nil || again != first {
			t.Errorf("%d: compiled again: %v", i, err)
		}
	}
	// With the grammar of a tool's input there is no name: it may change.
	input := &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Lit("a")}}}
	p := prompt(plain, tool(`{"type":"object","properties":{"input":{"type":"string"}}}`))
	rule := &chat.CallRule{Required: true, Inputs: map[string]*grammar.Grammar{"f": input}}
	if key := p.LanguageKey(rule); key != nil {
		t.Errorf("a key of a grammar: %v", key)
	}
}
