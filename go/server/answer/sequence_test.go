package answer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// letters are a vocabulary: each byte is a token, with its number behind three others, and some words are.
type letters struct{}

func (letters) Value(key string) (any, bool) {
	tokens, types := []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}
	const hex = "0123456789ABCDEF"
	for b := range 256 {
		tokens, types = append(tokens, "<0x"+string(hex[b/16])+string(hex[b%16])+">"), append(types, 6)
	}
	for _, word := range words {
		tokens, types = append(tokens, word), append(types, 1)
	}
	v, ok := map[string]any{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.scores": make([]float32, len(tokens)), "tokenizer.ggml.add_space_prefix": false,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2)}[key]
	return v, ok
}

// words are the last tokens of the vocabulary.
var words = []string{"Hello", "lo", "END", "<think>", "</think>", "Hm"}

// token returns the token of a word, or of a letter.
func tokenOf(word string) generate.Token {
	if i := slices.Index(words, word); i >= 0 {
		return generate.Token{ID: int32(3 + 256 + i)}
	}
	return generate.Token{ID: 3 + int32(word[0])}
}

// The text of an answer is the same whether its tokens are told apart or not, and so are its tokens; those of its text are
// in order, each once, and none of what was thought.
func TestTokensApart(t *testing.T) {
	tok, err := tokenizer.New(letters{})
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := chat.Parse("{{ messages[0].content }}{# <think> </think> #}", chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := tmpl.Render(chat.Input{Messages: []chat.Message{{Role: "user", Content: chat.Text("hi")}}, AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &ask.Model{Tokenizer: tok}
	for _, c := range []struct {
		says, stop, text, said string
	}{
		{"Hello !", "", "Hello!", "Hello !"}, {"Hello !", "loX", "Hello!", "Hello !"}, {"Hello lo ! lo", "loX", "Hellolo!lo", "Hello lo ! lo"},
		{"Hello END", "END", "Hello", "Hello"}, {"Hello E N END", "ENEND", "Hello", "Hello"}, {"Hello E N", "ENEND", "HelloEN", "Hello E N"},
		{"<think> Hm </think> Hello !", "", "Hello!", "Hello !"}, {"<think> Hm lo </think> Hello lo", "loX", "Hellolo", "Hello lo"},
		{"\xc3 \xa9 Hello \xc3 \xa9", "", "éHelloé", "\xc3 \xa9 Hello \xc3 \xa9"}, {"a \xc3 \xa9 b", "ébc", "aéb", "a \xc3 \xa9 b"},
	} {
		var texts, tokens [2]string
		said := ""
		for i, sorted := range []bool{true, false} {
			o := ask.NewOptions(m)
			if o.Sorted = sorted; c.stop != "" {
				o.Stop = []string{c.stop}
			}
			w := newWriter(&o, m, &prompt)
			word := ""
			keep := func(p Piece) {
				texts[i] += p.Content()
				for _, t := range p.Tokens {
					tokens[i] += fmt.Sprint(t.ID, " ")
				}
				for _, some := range p.said {
					for _, t := range some {
						said += fmt.Sprint(t.ID, " ")
					}
				}
			}
			for text := range strings.SplitSeq(c.says, " ") {
				var p Piece
				p, word = w.write(tokenOf(text))
				if keep(p); word != "" {
					break
				}
			}
			p, _ := w.end(word)
			keep(p)
		}
		want := ""
		for text := range strings.SplitSeq(c.said, " ") {
			want += fmt.Sprint(tokenOf(text).ID, " ")
		}
		if texts[0] != c.text || texts[1] != c.text || tokens[0] != tokens[1] || said != want {
			t.Errorf("%+v: %q, %q; tokens %s, %s; said %s, want %s", c, texts[0], texts[1], tokens[0], tokens[1], said, want)
		}
	}
}

// sequenceOf returns a sequence that ends at texts, in a ledger.
func sequenceOf(t *testing.T, l *ledger, stops ...string) *Sequence {
	t.Helper()
	tok, err := tokenizer.New(letters{})
	if err != nil {
		t.Fatal(err)
	}
	return &Sequence{box: newMailbox(), ledger: l, write: writer{text: tok.NewStream(), stops: tokenizer.NewStops(stops, 0)}}
}

// say takes the bytes of a text as tokens, until no more are wanted, and returns how many it took.
func (s *Sequence) say(text string) int {
	for i := range len(text) {
		if !s.Token(generate.Token{ID: 3 + int32(text[i])}) {
			return i + 1
		}
	}
	return len(text)
}

// said is the text of all events, and how the last one ended.
func (s *Sequence) said() (string, *Ending) {
	text, end := "", (*Ending)(nil)
	for _, e := range s.box.fetch() {
		text += e.Piece.Content()
		end = e.End
	}
	return text, end
}

// A sequence ends by a word, by the end of the text, or by a bound, and its last event tells which.
func TestEndsOfSequences(t *testing.T) {
	for _, c := range []struct {
		stop, says string
		ends       bool // with EOS
		result     engine.Result
		took       int
		text       string
		want       Ending
	}{
		{"", "ab", false, engine.Result{Finish: generate.MaxedOut}, 2, "ab", Ending{Stop: StopLimit}},
		{"", "ab", true, engine.Result{Finish: generate.Stopped}, 2, "ab", Ending{Stop: StopEOS}},
		{"b", "abc", false, engine.Result{}, 2, "a", Ending{Stop: StopByWord, Word: "b"}},
		{"bcd", "abc", true, engine.Result{}, 3, "abc", Ending{Stop: StopEOS}},
		{"\uFFFD", "a\xf0\x9f", true, engine.Result{}, 3, "a", Ending{Stop: StopByWord, Word: "\uFFFD"}},
		{"", "a\xf0\x9f", false, engine.Result{}, 3, "a\uFFFD\uFFFD", Ending{Stop: StopLimit}},
		{"", "ab", false, engine.Result{Finish: generate.CtxFull}, 2, "ab", Ending{Stop: StopLimit, truncated: true}},
		{"", "ab", true, engine.Result{Usage: engine.Usage{Shifts: 1}}, 2, "ab", Ending{Stop: StopEOS, truncated: true}},
		{"", "ab", false, engine.Result{Err: engine.ErrClosing}, 2, "ab", Ending{Stop: StopLimit, err: engine.ErrClosing}},
		{"", "", false, engine.Result{}, 0, "", Ending{Stop: StopLimit}},
	} {
		s := sequenceOf(t, &ledger{})
		if c.stop != "" {
			s = sequenceOf(t, &ledger{}, c.stop)
		}
		took := s.say(c.says)
		if c.ends && s.Token(generate.Token{ID: 2, Stop: true}) {
			t.Errorf("%+v: it goes on after its end", c)
		}
		s.Done(c.result)
		text, end := s.said()
		if took != c.took || text != c.text || end == nil || *end != c.want {
			t.Errorf("%+v: %d tokens, %q, %+v", c, took, text, end)
		}
		if got, want := s.usage.Generated, c.took+map[bool]int{true: 1}[c.ends]; got != want {
			t.Errorf("%+v: %d tokens count, want %d", c, got, want)
		}
	}
}

// Whether there was a line break is told while the text comes.
func TestLineBreaks(t *testing.T) {
	s := sequenceOf(t, &ledger{})
	for i, c := range "ab\nc" {
		if s.say(string(c)); s.hasLine.Load() != (i >= 2) {
			t.Errorf("after %d bytes: %v", i+1, s.hasLine.Load())
		}
	}
	late := sequenceOf(t, &ledger{}, "\nEND")
	if late.say("a\n"); late.hasLine.Load() {
		t.Error("a line break that may be part of a stop word counts")
	}
	if late.Done(engine.Result{}); !late.hasLine.Load() {
		t.Error("the last line break does not count")
	}
}

// An answer that takes longer than its bound ends once it has a line break; 0 and less are no bound.
func TestTimeOfAnswers(t *testing.T) {
	for _, c := range []struct {
		bound time.Duration
		text  string
		took  int
	}{{time.Nanosecond, "ab\ncd", 3}, {time.Nanosecond, "abcd", 4}, {0, "ab\ncd", 5}, {-time.Millisecond, "ab\ncd", 5}, {time.Hour, "ab\ncd", 5}} {
		s := sequenceOf(t, &ledger{})
		s.maxTime = c.bound
		s.Token(generate.Token{ID: 3 + 'x'})
		time.Sleep(time.Millisecond)
		if took := s.say(c.text); took != c.took || (s.stop == StopLimit) != (c.took < len(c.text)) {
			t.Errorf("%+v: %d tokens, %q", c, took, s.stop)
		}
	}
}

// A sequence for which there is no memory ends with that error: no more tokens, or no event, fit. Its last event comes
// in any case.
func TestSequenceWithoutMemory(t *testing.T) {
	one := generate.Token{ID: 3 + 'a', Top: make([]sample.Logprob, 2)}
	text := slack * (int(unsafe.Sizeof(chat.Delta{})) + 2)
	for _, c := range []struct {
		room int
		ok   bool
	}{{tokenPrice(&one) + eventBytes + text, true}, {tokenPrice(&one) + eventBytes + text - 1, false}, {tokenPrice(&one), false}, {tokenPrice(&one) - 1, false}} {
		budget := mem.NewBudget(uint64(c.room), "a test")
		taken, err := budget.Reserve(answersPurpose, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := sequenceOf(t, &ledger{taken: taken, from: budget, open: true})
		if got := s.Token(one); got != c.ok || (s.failed == ErrAnswers) == c.ok {
			t.Errorf("%d bytes: %v, %v", c.room, got, s.failed)
		}
		s.Done(engine.Result{})
		_, end := s.said()
		if end == nil || (end.err == ErrAnswers) == c.ok || c.ok && end.err != nil {
			t.Errorf("%d bytes: it ended with %+v", c.room, end)
		}
	}
}

// What a prompt's numbers that are none end is told by the last event, and no token is taken.
func TestSequenceOfPromptThatOverflows(t *testing.T) {
	s := sequenceOf(t, &ledger{})
	s.PromptProbs = newPromptProbs([]int32{3, 4}, 1, false)
	s.PromptProbs.failed = errors.New("overflow")
	if s.Token(generate.Token{ID: 100}) || s.usage.Generated != 0 {
		t.Error("a token after a prompt that overflows")
	}
	s.Done(engine.Result{})
	if _, end := s.said(); end == nil || end.err != s.PromptProbs.failed {
		t.Errorf("%+v", end)
	}
	// With a prompt's probabilities, the token that ends the answer is one of them.
	s = sequenceOf(t, &ledger{})
	s.PromptProbs = newPromptProbs([]int32{3, 4}, 1, false)
	s.say("a")
	s.Token(generate.Token{ID: 2, Stop: true})
	s.Done(engine.Result{})
	n := 0
	for _, e := range s.box.fetch() {
		n += len(e.Piece.Tokens)
	}
	if n != 2 {
		t.Errorf("%d tokens, want the letter and the end", n)
	}
}

// failing is a blockWriter that fails at one of its steps.
type failing struct {
	blockList
	at, step int
}

func (f *failing) fails() error {
	if f.step++; f.step == f.at {
		return reply.ErrGone
	}
	return nil
}

func (f *failing) Open(s *reply.Stream, b *Block) error {
	return errors.Join(f.fails(), f.blockList.Open(s, b))
}

func (f *failing) Add(s *reply.Stream, b *Block, text string, said []generate.Token) error {
	return errors.Join(f.fails(), f.blockList.Add(s, b, text, said))
}

func (f *failing) Close(*reply.Stream, *Block, *Ending) error { return f.fails() }

// An answer is cut where its kind changes, and where another call begins; who cannot be told of a block is told no more.
func TestCutsOfAnswers(t *testing.T) {
	call := func(i int, id, name, arguments string) chat.Delta {
		return chat.Delta{Call: &chat.CallPart{Index: i, ID: id, Name: name, Arguments: arguments}}
	}
	a, b := generate.Token{ID: 1}, generate.Token{ID: 2}
	p := Piece{deltas: []chat.Delta{{Reasoning: "hm"}, {Reasoning: "."}, {Content: "a"}, {Content: "b"}, call(0, "i", "f", "{"), call(0, "", "", "}"), call(1, "j", "g", "1"), {Content: "c"}},
		said: [][]generate.Token{nil, nil, {a}, {b, a}}}
	var cut Blocks
	var all blockList
	if err := errors.Join(cut.Write(nil, &p, &all), cut.End(nil, &Ending{}, &all), cut.End(nil, nil, &all)); err != nil || cut.current != nil {
		t.Fatal(err)
	}
	got := ""
	for _, b := range all {
		got += []string{"text", "thought", "call"}[b.Kind] + " " + b.ID + b.Name + " " + b.Text.String() + "; "
	}
	if got != "thought  hm.; text  ab; call if {}; call jg 1; text  c; " || len(all[1].Tokens) != 3 || len(all[4].Tokens) != 0 {
		t.Errorf("%s, %+v", got, all[1])
	}
	if calls := all.Calls(); len(calls) != 2 || calls[0].ID != "i" || calls[0].Type != "function" || calls[0].Function.Name != "f" ||
		string(calls[0].Function.Arguments) != "{}" || calls[1].ID != "j" {
		t.Errorf("%+v", calls)
	}
	if all.Join(TextBlock) != "abc" || all.Join(ThoughtBlock) != "hm." {
		t.Errorf("%q and %q", all.Join(TextBlock), all.Join(ThoughtBlock))
	}
	for at := 1; at <= 18; at++ {
		f := failing{at: at}
		var cut Blocks
		err := cut.Write(nil, &p, &f)
		if (err != nil) != (at <= 17) || err != nil && f.step != at {
			t.Errorf("a failure at step %d: %v after %d", at, err, f.step)
		}
		if at == 18 {
			if err := cut.End(nil, nil, &f); !errors.Is(err, reply.ErrGone) {
				t.Errorf("at the end: %v", err)
			}
		}
	}
	// A model's answer, from its events.
	answer := Answer{}
	s := &Sequence{Index: 3}
	answer.Add(Event{Seq: s, Piece: Piece{deltas: p.deltas[:3], Tokens: []generate.Token{a}}, Usage: engine.Usage{Generated: 1}})
	answer.Add(Event{Seq: s, Piece: Piece{deltas: p.deltas[3:4], Tokens: []generate.Token{b}}, Usage: engine.Usage{Generated: 2}, End: &Ending{Stop: StopEOS}})
	if answer.Seq != s || len(answer.Blocks) != 2 || len(answer.Tokens) != 2 || answer.Usage.Generated != 2 || answer.Stop != StopEOS || answer.Blocks.Join(TextBlock) != "ab" {
		t.Errorf("%+v", answer)
	}
}
