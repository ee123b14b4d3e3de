package data

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Long says what becomes of an example that is longer than a text may be.
type Long string

// What becomes of it. A text without a prompt is divided, unless it is to be refused.
const (
	Cut    Long = "cut"    // it ends where there is no more room
	Skip   Long = "skip"   // it is left out
	Refuse Long = "refuse" // it is an error
)

// Longs are all of these.
var Longs = []Long{Cut, Skip, Refuse}

// A Renderer makes texts for training of examples. Fields must not change once it is used.
type Renderer struct {
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Now       time.Time // for templates with dates
	MaxTokens int       // of a text
	Long      Long      // empty: Cut

	Until   context.Context // ends the rendering with its error; nil: nothing does
	Workers int             // examples that are rendered at a time; 0: as many as there are processors
}

// Counts says what a Renderer has made of examples.
type Counts struct {
	Examples int
	Texts    int
	Tokens   int
	Learnt   int // of the tokens
	Longest  int // tokens of an example, before it was cut
	Cut      int // examples
	Skipped  int // examples that were too long
	Empty    int // examples of which nothing learnt was left once they were cut
	Divided  int // texts without a prompt that became several
	Apart    int // conversations whose answers became texts of their own, since the template writes earlier ones otherwise

	LongAt string // Where of the first that was too long
}

// Render returns the texts of examples, in their order. Errors begin with where the example is.
func (r *Renderer) Render(all []Example) ([]model.Text, Counts, error) {
	if err := r.probe(all); err != nil {
		return nil, Counts{}, cmp.Or(r.stopped(), err)
	}
	made := make([]rendered, len(all))
	err := r.each(len(all), func(i int) { made[i] = r.example(&all[i], all[i].Turns == nil && all[i].Prompt == "") })
	if err != nil {
		return nil, Counts{}, err
	}
	var texts []model.Text
	var c Counts
	for i, m := range made {
		if m.err != nil {
			return nil, c, fmt.Errorf("%s: %w", all[i].Where, m.err)
		}
		c.add(&m, all[i].Where)
		texts = append(texts, m.texts...)
	}
	return texts, c, nil
}

// RenderPairs returns the texts of pairs: of the i-th the chosen and the rejected answer, each with its prompt. A pair of
// which one is too long is left out as a whole, or cut, and counts as one example.
func (r *Renderer) RenderPairs(all []Pair) (chosen, rejected []model.Text, c Counts, err error) {
	var examples []Example
	for _, p := range all {
		examples = append(examples, p.Chosen, p.Rejected)
	}
	if err := r.probe(examples); err != nil {
		return nil, nil, c, cmp.Or(r.stopped(), err)
	}
	made := make([]rendered, len(examples))
	if err := r.each(len(examples), func(i int) { made[i] = r.example(&examples[i], false) }); err != nil {
		return nil, nil, c, err
	}
	for i := range all {
		a, b := made[2*i], made[2*i+1]
		for _, m := range []*rendered{&a, &b} {
			if m.err == nil && len(m.texts) > 1 {
				m.err = errors.New("the answers of several turns cannot be one text: the template writes earlier ones otherwise")
			}
			if m.err != nil {
				return nil, nil, c, fmt.Errorf("%s: %w", all[i].Where, m.err)
			}
		}
		if len(a.texts) == 0 || len(b.texts) == 0 {
			a.texts, b.texts = nil, nil
		}
		both := rendered{texts: slices.Concat(a.texts, b.texts), longest: max(a.longest, b.longest), cut: a.cut || b.cut,
			skipped: a.skipped || b.skipped, empty: a.empty || b.empty}
		c.add(&both, all[i].Where)
		chosen, rejected = append(chosen, a.texts...), append(rejected, b.texts...)
	}
	return chosen, rejected, c, nil
}

// each calls do with 0 to n-1, some at a time. It returns a panic as an error, and that of Until.
func (r *Renderer) each(n int, do func(i int)) error {
	return panics.Share(cmp.Or(r.Workers, runtime.GOMAXPROCS(0)), n, func(i int) error {
		if err := r.stopped(); err != nil {
			return err
		}
		do(i)
		return r.stopped()
	})
}

// stopped returns the error of Until.
func (r *Renderer) stopped() error {
	if r.Until == nil {
		return nil
	}
	return r.Until.Err()
}

// add counts an example.
func (c *Counts) add(m *rendered, where string) {
	one := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	c.Examples++
	c.Longest = max(c.Longest, m.longest)
	c.Cut, c.Skipped, c.Empty = c.Cut+one(m.cut), c.Skipped+one(m.skipped), c.Empty+one(m.empty)
	c.Divided, c.Apart = c.Divided+one(m.divided), c.Apart+one(m.apart)
	if c.LongAt == "" && (m.cut || m.skipped) {
		c.LongAt = where
	}
	for _, x := range m.texts {
		c.Texts++
		c.Tokens += len(x.Tokens)
		for _, w := range x.Weights[1:] {
			c.Learnt += one(w != 0)
		}
	}
}

// rendered is what an example has become.
type rendered struct {
	texts                               []model.Text
	longest                             int
	cut, skipped, empty, divided, apart bool
	err                                 error
}

// example renders one example, which may be divided or not.
func (r *Renderer) example(x *Example, divides bool) (m rendered) {
	var texts []model.Text
	switch {
	case x.Turns != nil:
		texts, m.err = r.conversation(x)
		m.apart = len(texts) > 1
	default:
		var t model.Text
		t, m.err = r.text(x)
		texts = []model.Text{t}
	}
	if m.err != nil {
		return m
	}
	for _, t := range texts {
		r.fit(&m, t, divides)
		if m.err != nil {
			break
		}
	}
	for i := range m.texts {
		m.texts[i].Where = x.Where
	}
	return m
}

// fit adds a text, or what may be of one that is too long.
func (r *Renderer) fit(m *rendered, t model.Text, divides bool) {
	n := len(t.Tokens)
	m.longest = max(m.longest, n)
	switch {
	case n <= r.MaxTokens:
	case r.Long == Refuse:
		m.err = fmt.Errorf("%d tokens, and a text has at most %d", n, r.MaxTokens)
		return
	case divides:
		m.divided = true
		r.divide(m, t)
		return
	case r.Long == Skip:
		m.skipped = true
		return
	default:
		m.cut = true
		t.Tokens, t.Weights = t.Tokens[:r.MaxTokens], t.Weights[:r.MaxTokens]
	}
	for n := len(t.Weights); n > 0 && t.Weights[n-1] == 0; n-- { // what comes after the last that is learnt
		t.Tokens, t.Weights = t.Tokens[:n-1], t.Weights[:n-1]
	}
	if len(t.Tokens) < 2 {
		m.empty = true
		return
	}
	m.texts = append(m.texts, t)
}

// divide adds a text in parts, each of which begins as a text does.
func (r *Renderer) divide(m *rendered, t model.Text) {
	lead := r.Tokenizer.Lead()
	if len(lead) >= r.MaxTokens {
		lead = nil
	}
	ids := t.Tokens[min(len(r.Tokenizer.Lead()), len(t.Tokens)):]
	for len(ids) > 0 {
		n := min(r.MaxTokens-len(lead), len(ids))
		part := slices.Concat(lead, ids[:n])
		ids = ids[n:]
		if len(part) < 2 {
			break
		}
		m.texts = append(m.texts, weighted(part, len(lead)))
	}
}

// weighted is a text whose first n tokens are not learnt.
func weighted(ids []int32, n int) model.Text {
	t := model.Text{Tokens: ids, Weights: make([]float32, len(ids))}
	for i := max(n, 1); i < len(ids); i++ {
		t.Weights[i] = 1
	}
	return t
}

// text renders a text after a prompt. Its end is learnt.
func (r *Renderer) text(x *Example) (model.Text, error) {
	if known, err := r.known(x); known != nil || err != nil {
		return known.text(), err
	}
	tok := r.Tokenizer
	lead := len(tok.Lead())
	ids := r.begin(x, x.beginning())
	if x.Prompt != "" {
		lead = len(ids)
		ids = append(ids, tok.Encode(x.Text, tokenizer.Options{ParseSpecial: !x.Plain, NoSpecial: true, Continues: true})...)
	}
	if end, ok := tok.EOS(); ok && len(ids) > 0 && !tok.IsEOG(ids[len(ids)-1]) {
		ids = append(ids, end)
	}
	return weighted(ids, lead), nil
}

// A part is a text that grows: the prompts and answers of a conversation.
type part struct {
	r    *Renderer
	text string
	ids  []int32
	w    []float32
}

// add appends what a rendering has more than the part, which it begins with.
func (p *part) add(whole chat.Prompt, learn bool) {
	from := len(p.text)
	if from == len(whole.Text) {
		return
	}
	o := tokenizer.Options{ParseSpecial: true, NoSpecial: true, Continues: from > 0}
	for _, l := range whole.Literal {
		if l[1] > from {
			o.Literal = append(o.Literal, [2]int{max(l[0]-from, 0), l[1] - from})
		}
	}
	ids := p.r.Tokenizer.Encode(whole.Text[from:], o)
	lead := 0 // tokens that are not learnt, where an answer begins the text
	if from == 0 {
		ids = p.r.Tokenizer.Begin(slices.Concat(p.r.Tokenizer.Lead(), ids))
		lead = len(p.r.Tokenizer.Lead())
	}
	weight := float32(0)
	if learn {
		weight = 1
	}
	for i, id := range ids {
		p.ids, p.w = append(p.ids, id), append(p.w, weight)
		if i < lead {
			p.w[i] = 0
		}
		if p.r.Tokenizer.IsEOG(id) {
			weight = 0 // nothing is generated after it
		}
	}
	p.text = whole.Text
}

// take returns the part as a text, whose last answer has an end even where the template writes none.
func (p *part) take() model.Text {
	last := len(p.w) - 1
	for last > 0 && p.w[last] == 0 {
		last--
	}
	if end, ok := p.r.Tokenizer.EOS(); ok && !p.r.Tokenizer.IsEOG(p.ids[last]) {
		p.ids, p.w = append(p.ids[:last+1], end), append(p.w[:last+1], 1)
	}
	return model.Text{Tokens: p.ids, Weights: p.w}
}

// mostRendered is how many bytes a template may write for one conversation in all: it writes what came before again with each answer.
var mostRendered = 1 << 30 // tests have less

// conversation renders a conversation. An answer is what the rendering up to it has more than its prompt, as a server
// would have made that. It is in a text with those before it, if its prompt begins with them as they were written.
func (r *Renderer) conversation(x *Example) (texts []model.Text, err error) {
	p, written := &part{r: r}, 0
	for i := range x.Turns {
		if !x.Turns[i].Learn {
			continue
		}
		if err := r.stopped(); err != nil {
			return nil, err
		}
		prompt, whole, err := r.answer(x, i)
		if err != nil {
			return nil, err
		}
		if written += len(prompt.Text) + len(whole.Text); written > mostRendered {
			return nil, fmt.Errorf("messages.%d: too many answers in so long a conversation; divide it into several", i)
		}
		if !strings.HasPrefix(prompt.Text, p.text) {
			texts = append(texts, p.take())
			p = &part{r: r}
		}
		p.add(prompt, false)
		p.add(whole, true)
	}
	return append(texts, p.take()), nil
}

// withoutThinking has templates with a choice begin answers as they write those without a thought.
var withoutThinking = map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}

// answer renders a conversation up to turn i, and with it.
func (r *Renderer) answer(x *Example, i int) (prompt, whole chat.Prompt, err error) {
	for _, variables := range []map[string]json.RawMessage{nil, withoutThinking} {
		if prompt, err = r.prompt(x, i, variables); err != nil {
			return prompt, whole, err
		}
		if whole, err = r.whole(x, i+1, variables); err != nil {
			return prompt, whole, err
		}
		if strings.HasPrefix(whole.Text, prompt.Text) && len(whole.Text) > len(prompt.Text) {
			return prompt, whole, nil
		}
	}
	return prompt, whole, fmt.Errorf("messages.%d: the model's chat template writes an answer otherwise than its prompt begins it, "+
		"so what is to be learnt cannot be told; --chat-template gives another", i)
}

// prompt renders the first n turns with what begins an answer.
func (r *Renderer) prompt(x *Example, n int, variables map[string]json.RawMessage) (chat.Prompt, error) {
	if n == 0 { // the template may want a message: the model begins
		whole, err := r.whole(x, 1, variables)
		if err != nil {
			return chat.Prompt{}, err
		}
		content := strings.TrimSpace(x.Turns[0].Content.String())
		at := strings.LastIndex(whole.Text, content)
		if len(whole.Literal) > 0 {
			at = whole.Literal[0][0]
		}
		if content == "" || at < 0 {
			return chat.Prompt{}, errors.New("messages.0: a conversation begins with the assistant, without content")
		}
		whole.Text = whole.Text[:at]
		return whole, nil
	}
	return r.Template.Render(r.input(x, n, true, variables))
}

// whole renders the first n turns.
func (r *Renderer) whole(x *Example, n int, variables map[string]json.RawMessage) (chat.Prompt, error) {
	return r.Template.Render(r.input(x, n, false, variables))
}

func (r *Renderer) input(x *Example, n int, prompt bool, variables map[string]json.RawMessage) chat.Input {
	in := chat.Input{Tools: x.Tools, AddGenerationPrompt: prompt, Kwargs: variables, Now: r.Now, Until: r.Until}
	for _, t := range x.Turns[:n] {
		in.Messages = append(in.Messages, t.Message)
	}
	return in
}

// probeWord is in no template and in no data.
const probeWord = "Zkqvxjw7"

// probe returns an error if the template leaves out messages of a role that conversations have, or calls, or tools: of
// each kind the first.
func (r *Renderer) probe(all []Example) error {
	seen := map[string]bool{}
	for i := range all {
		x := &all[i]
		last := -1
		for k, t := range x.Turns {
			if t.Learn {
				last = k
			}
		}
		for k := range last + 1 {
			for _, kind := range kindsOf(&x.Turns[k]) {
				if seen[kind] {
					continue
				}
				seen[kind] = true
				until := last
				if kind == thoughtsKind { // those of earlier answers may well be left out
					until = k
				}
				if err := r.probeTurn(x, k, until, kind); err != nil {
					return fmt.Errorf("%s: %w", x.Where, err)
				}
			}
		}
		if len(x.Tools) > 0 && !seen["tools"] {
			seen["tools"] = true
			if err := r.probeTools(x, last); err != nil {
				return fmt.Errorf("%s: %w", x.Where, err)
			}
		}
	}
	return nil
}

// kindsOf names what a template could leave out of a message.
func kindsOf(t *Turn) (kinds []string) {
	if !t.Content.Null && strings.TrimSpace(t.Content.String()) != "" {
		kind := t.Role
		if len(t.ToolCalls) > 0 {
			kind = besideKind
		}
		kinds = append(kinds, kind)
	}
	if len(t.ToolCalls) > 0 {
		kinds = append(kinds, callsKind)
	}
	if t.Learn && strings.TrimSpace(t.ReasoningContent) != "" {
		kinds = append(kinds, thoughtsKind)
	}
	return kinds
}

// Kinds that are no roles.
const callsKind, besideKind, thoughtsKind = "calls", "beside calls", "thoughts"

// probeTurn renders a conversation up to the turn last, with a word in one message, and looks for the word.
func (r *Renderer) probeTurn(x *Example, k, last int, kind string) error {
	changed := *x
	changed.Turns = slices.Clone(x.Turns)
	t := &changed.Turns[k]
	what := fmt.Sprintf("messages of the role %s", t.Role)
	if kind == besideKind {
		what = "what is said beside calls of tools"
	}
	switch kind {
	case callsKind:
		what = "calls of tools"
		t.ToolCalls = slices.Clone(t.ToolCalls)
		t.ToolCalls[0].Function.Name += probeWord
	case thoughtsKind:
		what = "what was thought before an answer (reasoning_content)"
		t.ReasoningContent += " " + probeWord
	default:
		t.Content = chat.Text(t.Content.String() + " " + probeWord)
	}
	whole, err := r.whole(&changed, last+1, nil)
	if err == nil && !strings.Contains(whole.Text, probeWord) {
		err = fmt.Errorf("messages.%d: the model's chat template leaves out %s, so they cannot be learnt from; --chat-template gives another", k, what)
	}
	return err
}

func (r *Renderer) probeTools(x *Example, last int) error {
	var tool struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(x.Tools[0], &tool); err != nil {
		return err
	}
	changed := *x
	changed.Tools = slices.Clone(x.Tools)
	changed.Tools[0] = json.RawMessage(strings.Replace(string(x.Tools[0]), `"`+tool.Function.Name+`"`, `"`+probeWord+`"`, 1))
	whole, err := r.whole(&changed, last+1, nil)
	if err == nil && !strings.Contains(whole.Text, probeWord) {
		err = errors.New("tools: the model's chat template leaves them out, so they cannot be learnt from; --chat-template gives another")
	}
	return err
}

// A Run is consecutive tokens of a text that are learnt, or are not.
type Run struct {
	Text   string
	Tokens int
	Learnt bool
}

// Runs returns what of a text is learnt, to be shown.
func Runs(tok *tokenizer.Tokenizer, x model.Text) (runs []Run) {
	for i := 0; i < len(x.Tokens); {
		learnt := i > 0 && x.Weights[i] != 0
		k := i
		for k < len(x.Tokens) && (k > 0 && x.Weights[k] != 0) == learnt {
			k++
		}
		var text []byte
		for _, id := range x.Tokens[i:k] {
			text = append(text, tok.Piece(id, true)...)
		}
		runs = append(runs, Run{strings.ToValidUTF8(string(text), "\ufffd"), k - i, learnt})
		i = k
	}
	return runs
}
