package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/tokenizer"
)

// draftFlags say what is guessed of texts, to verify several tokens in a pass.
type draftFlags struct {
	draft.Options
	model string // that drafts; empty: none
}

func (f *draftFlags) define(fs *pflag.FlagSet) {
	f.Options = draft.Defaults
	fs.Var((*sourcesValue)(&f.Sources), "speculate", "`SOURCES` of drafts, to verify several tokens in one pass where that is faster: auto, off, or with commas ngram (the text itself), recent (recent texts), mtp (a layer of the model that predicts further tokens), model (a draft model)")
	fs.StringVar(&f.model, "model-draft", "", "GGUF `FILE` of a smaller model with the same vocabulary, which drafts for the first model")
	intVar(fs, &f.Max, "draft-max", "", f.Max, 0, 1<<16, "draft tokens at a time, at most; more than 31 are 31")
	intVar(fs, &f.Min, "draft-min", "", f.Min, 0, 1<<16, "draft tokens at a time, at least; fewer are not used")
	floatVar(fs, &f.MinChance, "draft-p-min", f.MinChance, 0, 1, "least chance of a draft token")
	for _, name := range []string{"draft-max", "draft-min", "draft-p-min"} {
		fs.Lookup(name).Hidden = true
	}
}

// check returns an error if there is a draft model, and it cannot draft for one with this vocabulary: before that is loaded.
func (f *draftFlags) check(tok *tokenizer.Tokenizer) error {
	if f.model == "" {
		return nil
	}
	head, err := f.head(tok)
	if err == nil {
		err = head.file.Close()
	}
	return err
}

// head reads the head of the draft model.
func (f *draftFlags) head(tok *tokenizer.Tokenizer) (*head, error) {
	h, err := readHead(f.model, true, nil)
	if err != nil {
		return nil, err
	}
	if err := sameVocabulary(h.tok, tok); err != nil {
		h.file.Close()
		return nil, fmt.Errorf("%s: %w", f.model, err)
	}
	return h, nil
}

// attach has the draft model, if there is one, draft for an engine that was opened with a configuration. The engine
// that it returns, nil if there is none, is to be closed before the other. failed is told why it does not draft for a while.
func (f *draftFlags) attach(eng *engine.Engine, tok *tokenizer.Tokenizer, c engine.Config, failed func(error)) (*engine.Engine, error) {
	if f.model == "" {
		return nil, nil
	}
	head, err := f.head(tok)
	if err != nil {
		return nil, err
	}
	d, err := engine.New(head.file, engine.Config{
		Device: c.Device, Ctx: min(eng.Ctx(), head.cfg.NCtx), Sequences: c.Sequences, Shared: c.Shared, Batch: eng.Batch(), KV: c.KV,
	})
	if err != nil {
		return nil, err
	}
	if err := eng.DraftWith(d, failed); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: %w", f.model, err)
	}
	return d, nil
}

// undrafted returns what notes that a draft model has failed.
func undrafted(note func(string)) func(error) {
	return func(err error) { note(fmt.Sprintf("the draft model failed, and does not draft for a while: %v", err)) }
}

// padding is how many tokens one vocabulary may have more than another that is the same.
const padding = 128

// sameVocabulary returns an error unless ids mean the same in both.
func sameVocabulary(drafts, tok *tokenizer.Tokenizer) error {
	n, m := drafts.Len(), tok.Len()
	if n > m+padding || m > n+padding {
		return fmt.Errorf("its vocabulary has %d tokens and the model's %d; a draft model needs the same, as those of a family have", n, m)
	}
	for id := range int32(min(n, m)) {
		if a, b := drafts.Token(id), tok.Token(id); a != b {
			return fmt.Errorf("its vocabulary is another than the model's: token %d is %q, there %q; a draft model needs the same, as those of a family have", id, a, b)
		}
	}
	return nil
}

// A sourcesValue is a list of sources of drafts.
type sourcesValue draft.Set

func (v *sourcesValue) Set(s string) error {
	t, err := draft.ParseSet(s)
	if err == nil {
		*v = sourcesValue(t)
	}
	return err
}

func (v *sourcesValue) String() string { return draft.Set(*v).String() }
func (v *sourcesValue) Type() string   { return "SOURCES" }

// A chancesValue is a list of chances.
type chancesValue []float64

func (v *chancesValue) Set(s string) error {
	var list []float64
	for word := range strings.SplitSeq(strings.TrimPrefix(s, "p="), ",") {
		p, err := strconv.ParseFloat(word, 64)
		if err != nil || !(p >= 0 && p <= 1) {
			return errors.New("want chances from 0 to 1 with commas between them, such as 0.5,0.7,0.9")
		}
		list = append(list, p)
	}
	*v = list
	return nil
}

func (v *chancesValue) String() string {
	var words []string
	for _, p := range *v {
		words = append(words, strconv.FormatFloat(p, 'g', -1, 64))
	}
	return strings.Join(words, ",")
}

func (v *chancesValue) Type() string { return "CHANCES" }
