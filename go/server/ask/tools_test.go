package ask

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// boxOf reads the fields of a body that say which tools there are.
func boxOf(t *testing.T, fields string) Toolbox {
	t.Helper()
	b := newToolbox()
	if err := field.ReadSome([]byte("{"+fields+"}"), b.Fields()); err != nil {
		t.Fatalf("%s: %v", fields, err)
	}
	return b
}

// inputTool is a custom tool whose input is one of a grammar.
func inputTool(syntax, definition string) string {
	return fmt.Sprintf(`{"type":"custom","custom":{"name":"c","description":"Does c.","format":{"type":"grammar","grammar":{"syntax":%q,"definition":%q}}}}`,
		syntax, definition)
}

// Which calls an answer may have is what the tools and the choice say; without tools, or without a choice, there are none.
func TestCallRules(t *testing.T) {
	t.Parallel()
	tools := `"tools":[{"function":{"name":"f","strict":true}},{"function":{"name":"g"}},` + inputTool("regex", "[ab]+") + `]`
	for fields, want := range map[string]string{
		``: "none", `"tools":[]`: "none", `"tools":[],"tool_choice":"auto"`: "none", tools + `,"tool_choice":"none"`: "none",
		tools:                                               "required false, single false, of [], strict [f], inputs [c]",
		tools + `,"tool_choice":"auto"`:                     "required false, single false, of [], strict [f], inputs [c]",
		tools + `,"tool_choice":"required"`:                 "required true, single false, of [], strict [f], inputs [c]",
		tools + `,"tool_choice":{"name":"g"}`:               "required true, single false, of [g], strict [f], inputs [c]",
		tools + `,"parallel_tool_calls":false`:              "required false, single true, of [], strict [f], inputs [c]",
		`"functions":[{"name":"h"}]`:                        "required false, single true, of [], strict [], inputs []",
		`"tools":[{"custom":{"name":"c"},"type":"custom"}]`: "required false, single false, of [], strict [], inputs []",
	} {
		b := boxOf(t, fields)
		rule, err := b.rule(t.Context())
		got := "none"
		if rule != nil {
			got = fmt.Sprintf("required %v, single %v, of %v, strict %v, inputs %v", rule.Required, rule.Single, rule.Names, rule.Strict,
				slices.Sorted(maps.Keys(rule.Inputs)))
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", fields, got, err, want)
		}
	}
	b := boxOf(t, `"tools":[{"function":{"name":"f"}},`+inputTool("lark", "start: (")+`]`)
	e := (*reply.Error)(nil)
	if _, err := b.rule(t.Context()); !errors.As(err, &e) || e.Param != "tools" || !strings.HasPrefix(e.Message, `tools: the tool "c": format: `) ||
		strings.Contains(e.Message, "\n") {
		t.Errorf("of a wrong grammar: %v", err)
	}
	// A client that leaves, or its deadline, ends the reading of a grammar.
	for _, c := range []struct{ cause, want error }{{nil, reply.ErrGone}, {engine.ErrDeadline, engine.ErrDeadline}} {
		ctx, end := context.WithCancelCause(t.Context())
		end(c.cause)
		b := boxOf(t, `"tools":[`+inputTool("lark", `start: "a"`)+`]`)
		if _, err := b.rule(ctx); err != c.want {
			t.Errorf("ended by %v: %v, want %v", c.cause, err, c.want)
		}
	}
}

// A custom tool is a function with one text, whose description has its grammar; a function that others define has what
// they say of it.
func TestToolsAsFunctions(t *testing.T) {
	t.Parallel()
	b := boxOf(t, `"tools":[{"function":{"name":"f"}},{"type":"custom","custom":{"name":"p","description":"Does p."}},`+inputTool("regex", "[ab]+")+`]`)
	if b.Tools.Custom("f") || !b.Tools.Custom("p") || !b.Tools.Custom("c") || b.Tools.Custom("none") {
		t.Errorf("which are custom: %+v", b.Tools.list)
	}
	const parameters = `"parameters": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": false}`
	for i, want := range []string{
		`{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}`,
		`{"type": "function", "function": {"name": "p", "description": "Does p.", ` + parameters + `}}`,
		`{"type": "function", "function": {"name": "c", "description": "Does c.\n\nThe input is of this language (regex):\n[ab]+", ` + parameters + `}}`,
	} {
		if got := string(b.shown()[i]); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	one, err := NewTool("f", "Does f.", []byte(`{"type":"object"}`), true)
	if err != nil || one.Name != "f" || !one.Strict || one.custom || string(one.Parameters) != `{"type":"object"}` {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := NewTool("f", "", []byte(`{"type"`), false); err == nil {
		t.Error("parameters that are no JSON")
	}
	if got := CustomArguments("a\"b"); got != `{"input":"a\"b"}` {
		t.Errorf("arguments %s", got)
	}
}
