package chat

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
)

// A CallRule says which calls a reply may have.
type CallRule struct {
	Required bool     // it has one
	Single   bool     // it has one at most
	Names    []string // of the tools that may be called; nil: all
	Strict   []string // of the tools whose arguments are what the schema says, or it is an error
	Loose    bool     // those of all others are any objects
	// Inputs are of tools whose only argument is a text, input: what it may be.
	Inputs map[string]*grammar.Grammar
}

// Language adds to g what a reply to the prompt may be, and returns its texts: reasoning,
// where the model has some, then content, and calls as the rule says; nil: none. From where a call begins
// it has the form that the model was taught, and arguments that the tool's schema
// allows. content is nil where it is free. control returns the id of the control token that a mark is: such
// tokens print nothing.
func (p Prompt) Language(g *grammar.Grammar, content grammar.Expr, calls *CallRule, control func(mark string) (id int32, ok bool)) (grammar.Expr, error) {
	l := &language{g: g, control: control, marks: p.Marks()}
	if calls == nil || p.reply.syntax == nil {
		calls = &CallRule{Names: []string{}}
	}
	for _, t := range p.reply.tools {
		if calls.Names == nil || slices.Contains(calls.Names, t.Name) {
			if t.Strict = t.Strict || slices.Contains(calls.Strict, t.Name); calls.Loose && !t.Strict {
				t.Parameters = nil
			}
			t.input = calls.Inputs[t.Name]
			l.tools = append(l.tools, t)
		}
	}
	if p.reply.harmony != nil {
		return l.channels(content, calls)
	}
	r := p.Reply()
	if r.style != nil {
		l.dropped = r.style.dropped
	}
	reply, err := l.reply(r.syntax, content, calls)
	if err != nil {
		return nil, err
	}
	if r.style == nil || r.once || r.trim || r.state == answering || r.state == calling {
		return reply, nil
	}
	thought := grammar.Seq{l.free(r.style.shut), l.text(r.style.shut), l.space(), reply}
	if r.state == reasoning {
		return thought, nil
	}
	return grammar.Alt{reply, grammar.Seq{l.space(), l.text(r.style.open), thought}}, nil
}

// LanguageKey tells the languages of prompts apart: where two keys, and the contents, are equal, Language returns the same.
// It is comparable; nil: the rule has parts that no key tells apart.
func (p Prompt) LanguageKey(calls *CallRule) any {
	type key struct {
		style         *style
		syntax        *syntax
		harmony       bool
		state         replyState
		once, trim    bool
		calls, single bool
		required      bool
		tools         [sha256.Size]byte
	}
	r := p.Reply()
	k := key{style: r.style, syntax: r.syntax, harmony: p.reply.harmony != nil, state: r.state, once: r.once, trim: r.trim}
	if calls == nil || r.syntax == nil {
		return k
	}
	if len(calls.Inputs) > 0 {
		return nil
	}
	k.calls, k.single, k.required = true, calls.Single, calls.Required
	h := sha256.New()
	fmt.Fprintf(h, "%#v %#v %t", calls.Names, calls.Strict, calls.Loose)
	for _, t := range r.tools {
		fmt.Fprintf(h, "%q %t %t %d ", t.Name, t.Strict, t.Parameters == nil, len(t.Parameters))
		h.Write(t.Parameters)
	}
	k.tools = [sha256.Size]byte(h.Sum(nil))
	return k
}

// Thinking is how a reply has reasoning.
type Thinking struct {
	Open, Shut string // around it
	Closing    string // ends it
	Begun      bool   // the prompt has opened it
	Again      bool   // it may come several times
}

// Thinking returns how a reply to the prompt has reasoning, false where it has none.
func (p Prompt) Thinking() (Thinking, bool) {
	if p.reply.harmony != nil {
		return Thinking{Open: "<|channel|>analysis" + messageMark, Shut: "<|end|>", Closing: "<|end|><|start|>assistant", Again: true}, true
	}
	r := p.Reply()
	if r.style == nil || r.once || r.trim || r.state == answering || r.state == calling {
		return Thinking{}, false
	}
	return Thinking{Open: r.style.open, Shut: r.style.shut, Closing: r.style.shut, Begun: r.state == reasoning}, true
}

// A language collects the rules of replies.
type language struct {
	g       *grammar.Grammar
	control func(mark string) (int32, bool)
	marks   []string
	tools   []Tool
	dropped []string // what may come around content
	white   grammar.Expr
}

// reply returns content, calls, or one after the other.
func (l *language) reply(s *syntax, content grammar.Expr, rule *CallRule) (grammar.Expr, error) {
	if len(l.tools) == 0 {
		if content == nil {
			content = l.free()
		}
		return l.around(content), nil
	}
	calls, err := l.calls(s, rule)
	if err != nil {
		return nil, err
	}
	if rule.Required {
		return l.around(grammar.Seq{l.space(), calls}), nil
	}
	if content != nil {
		return l.around(grammar.Alt{content, grammar.Seq{l.space(), calls}}), nil
	}
	free := l.around(l.free(s.starts()...))
	if s.bare { // what begins as a call is one
		key := grammar.Seq{l.space(), grammar.Lit("{"), l.space(), grammar.Lit(`"name"`), anyText}
		free = grammar.And{free, grammar.Not{Expr: key}}
		return grammar.Alt{free, grammar.Seq{l.space(), calls}}, nil
	}
	most := -1
	if rule.Single {
		most = 1
	}
	return grammar.Seq{free, grammar.Repeat{Expr: grammar.Seq{calls, free}, Max: most}}, nil
}

// around returns an expression with the marks around it that are no part of the content.
func (l *language) around(e grammar.Expr) grammar.Expr {
	if l.dropped == nil {
		return e
	}
	var mark grammar.Alt
	for _, m := range l.dropped {
		mark = append(mark, l.text(m))
	}
	marks := grammar.Repeat{Expr: mark, Max: 2}
	return grammar.Seq{marks, e, marks}
}

// calls returns the calls of a reply, with what is around them.
func (l *language) calls(s *syntax, rule *CallRule) (grammar.Expr, error) {
	one := grammar.Alt{}
	for i := range l.tools {
		t := &l.tools[i]
		e, err := s.form.expr(l, t)
		if err != nil {
			return nil, fmt.Errorf("the tool %s: %w", t.Name, err)
		}
		one = append(one, e)
	}
	call := grammar.Expr(l.g.Add("call", one))
	if f, ok := s.form.(object); ok && f.list {
		call = grammar.Seq{l.text(f.before), l.space(), grammar.Lit("["), l.space(), l.several(call, grammar.Seq{l.space(), grammar.Lit(","), l.space()}, rule), l.space(), grammar.Lit("]"), l.fence(f.after)}
		rule = &CallRule{Single: true}
	}
	if _, ok := s.form.(python); ok {
		call = grammar.Seq{grammar.Lit("["), l.several(call, grammar.Lit(", "), rule), grammar.Lit("]")}
		rule = &CallRule{Single: true}
	}
	open := l.text(s.open)
	if s.bare { // the mark may be left out
		open = grammar.Alt{grammar.Lit(""), open}
	}
	call = grammar.Seq{open, l.space(), call, l.fence(s.shut)}
	return grammar.Seq{l.text(s.begin), l.spaceIf(s.begin != ""), l.several(call, l.space(), rule), l.fence(s.end), l.space()}, nil
}

// several returns one expression or more, as the rule says.
func (l *language) several(e, between grammar.Expr, rule *CallRule) grammar.Expr {
	if rule.Single {
		return e
	}
	return grammar.Seq{e, grammar.Repeat{Expr: grammar.Seq{between, e}, Max: -1}}
}

// fence returns a closing mark, after space.
func (l *language) fence(mark string) grammar.Expr {
	if mark == "" {
		return grammar.Lit("")
	}
	return grammar.Seq{l.space(), l.text(mark)}
}

func (l *language) spaceIf(some bool) grammar.Expr {
	if some {
		return l.space()
	}
	return grammar.Lit("")
}

// space returns what white space models write between the parts of a call: nothing, one space, or up to two new lines and an indent.
// One that is unsure, or was never taught to call, would go on with new lines if it could.
func (l *language) space() grammar.Expr {
	if l.white == nil {
		lines := grammar.Seq{
			grammar.Repeat{Expr: grammar.Lit("\n"), Min: 1, Max: 2},
			grammar.Repeat{Expr: grammar.Runes(" \t"), Max: 20},
		}
		l.white = l.g.Add("space", grammar.Alt{grammar.Lit(""), grammar.Lit(" "), lines})
	}
	return l.white
}

// text returns a text in which marks are tokens where they are control tokens.
func (l *language) text(text string) grammar.Expr {
	var seq grammar.Seq
	for text != "" {
		at, mark := len(text), ""
		for _, m := range l.marks {
			if i := strings.Index(text, m); m != "" && i >= 0 && (i < at || i == at && len(m) > len(mark)) {
				if _, ok := l.control(m); ok {
					at, mark = i, m
				}
			}
		}
		if at > 0 {
			seq = append(seq, grammar.Lit(text[:at]))
		}
		if mark != "" {
			id, _ := l.control(mark)
			seq = append(seq, grammar.Token{IDs: []int32{id}})
		}
		text = text[at+len(mark):]
	}
	return seq
}

var anyText = grammar.Repeat{Expr: grammar.Any, Max: -1}

// free returns any text that does not contain the marks. Those that are control tokens are
// in no text.
func (l *language) free(marks ...string) grammar.Expr {
	var with grammar.Alt
	for _, m := range marks {
		if _, ok := l.control(m); !ok {
			with = append(with, grammar.Lit(m))
		}
	}
	if with == nil {
		return anyText
	}
	return grammar.Not{Expr: grammar.Seq{anyText, with, anyText}}
}

// channels returns the replies of gpt-oss, after the role.
func (l *language) channels(content grammar.Expr, rule *CallRule) (grammar.Expr, error) {
	if content == nil {
		content = l.free("<|end|>")
	}
	message := func(channel string, text grammar.Expr) grammar.Expr {
		return grammar.Seq{l.text("<|channel|>" + channel + messageMark), text}
	}
	again := l.text("<|end|><|start|>assistant")
	before := grammar.Alt{message("analysis", l.free("<|end|>"))}
	last := grammar.Alt{}
	if !rule.Required {
		last = append(last, message("final", content))
	}
	if len(l.tools) > 0 {
		before = append(before, message("commentary", l.free("<|end|>")))
	}
	for i := range l.tools {
		t := &l.tools[i]
		args, err := l.arguments(t)
		if err != nil {
			return nil, fmt.Errorf("the tool %s: %w", t.Name, err)
		}
		to := " to=functions." + t.Name
		json := grammar.Alt{l.text(messageMark), l.text(" <|constrain|>json" + messageMark), l.text("<|constrain|>json" + messageMark), l.text(" json" + messageMark)}
		last = append(last,
			grammar.Seq{l.text(to + "<|channel|>commentary"), json, args},
			grammar.Seq{l.text("<|channel|>commentary" + to), json, args})
	}
	return grammar.Seq{grammar.Repeat{Expr: grammar.Seq{before, again}, Max: -1}, last}, nil
}
