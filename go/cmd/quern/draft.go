package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/bench"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// draftFlags say what is guessed of texts, to verify several tokens in a pass.
type draftFlags struct {
	draft.Options
	model string // that drafts; empty: none
	repo  string // of that model on Hugging Face, as llama.cpp names it
	joins bool   // that is a head, which is part of the model that it drafts for: see check
}

func (f *draftFlags) define(fs *pflag.FlagSet, hub *hubFlags) {
	f.Options = draft.Defaults
	fs.Var((*sourcesValue)(&f.Sources), "speculate", "`SOURCES` of drafts, to verify several tokens in one pass where that is faster: auto, off, or with commas ngram (the text itself), recent (recent texts), mtp (a layer of the model that predicts further tokens), head (layers trained for it, in a file of their own), model (a draft model)")
	fs.Var(&draftValue{f, hub}, "model-draft", "GGUF `FILE` of a smaller model, or of a head such as EAGLE-3, which drafts for the first model; or its name, as -m has it")
	fs.StringVar(&f.repo, "hf-repo-draft", "", "`ORG/REPO[:QUANT]` on Hugging Face, downloaded unless it is here; as --model-draft hf.co/ORG/REPO[:QUANT] --yes")
	fs.Lookup("hf-repo-draft").Hidden = true
	intVar(fs, &f.Max, "draft-max", "", f.Max, 0, 1<<16, "draft tokens at a time, at most; more than 31 are 31")
	intVar(fs, &f.Min, "draft-min", "", f.Min, 0, 1<<16, "draft tokens at a time, at least; fewer are not used")
	floatVar(fs, &f.MinChance, "draft-p-min", f.MinChance, 0, 1, "least chance of a draft token")
	for _, name := range []string{"draft-max", "draft-min", "draft-p-min"} {
		fs.Lookup(name).Hidden = true
	}
}

// check returns an error if there is a draft model, and it cannot draft for the model in a file: before that is loaded. Layers that
// were trained for the model become part of its file. tok is its vocabulary; nil: it is read where it is needed.
func (f *draftFlags) check(file *model.File, tok *tokenizer.Tokenizer) error {
	if f.model == "" {
		return nil
	}
	other, err := openFile(f.model)
	if err != nil {
		return err
	}
	if f.joins = other.IsHead(); !f.joins {
		other.Close()
		h, err := f.head()
		if err == nil {
			err = h.file.Close()
		}
		return err
	}
	if f.own() {
		if err = f.join(other, file, tok); err == nil {
			return nil // it is the other file's now
		}
	}
	other.Close()
	return err
}

// vocabulary reads that of the model called name, if there is a draft model for it; else nil.
func (f *draftFlags) vocabulary(name string) (*tokenizer.Tokenizer, error) {
	if f.model == "" {
		return nil, nil
	}
	return loadTokenizer(name)
}

// own reports whether layers that read the model's hidden states are to draft: its own, or those of a head.
func (f *draftFlags) own() bool {
	if f.joins {
		return f.Sources.Has(draft.Head)
	}
	return f.Sources.Has(draft.MTP)
}

// join makes a head part of the model that it drafts for, if it was made for one with that vocabulary.
func (f *draftFlags) join(head, file *model.File, tok *tokenizer.Tokenizer) (err error) {
	if _, ok := head.GGUF.Value("tokenizer.ggml.tokens"); ok {
		if tok == nil {
			if tok, err = tokenizer.New(file.GGUF); err != nil {
				return fmt.Errorf("%s: %w", file.Name(), err)
			}
		}
		own, err := tokenizer.New(head.GGUF)
		if err == nil {
			err = sameTokens(own, tok)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.model, err)
		}
	}
	return file.DraftBy(head)
}

// head reads the head of the draft model.
func (f *draftFlags) head() (*head, error) {
	h, err := readHead(f.model, true, nil)
	if err == nil && h.cfg.OnePass() {
		h.file.Close()
		err = fmt.Errorf("%s: the draft model reads whole texts and cannot continue one, want one that generates", f.model)
	}
	return h, err
}

// draftCtx is the context with which a draft model has to fit at least, if its own is as long: a longer text has no drafts by it
// from there on.
const draftCtx = 4096

// settings returns how the draft model is opened for a model that is opened with c, for texts of up to ctx tokens.
func (f *draftFlags) settings(h *head, c engine.Config, ctx int) engine.Config {
	return engine.Config{
		Device: c.Device, Ctx: min(ctx, h.cfg.NCtx), Sequences: c.Sequences, Shared: c.Shared, Batch: c.Batch, KV: c.KV, Until: c.Until,
	}
}

// need returns the memory that the draft model takes at least beside a model that is opened with c, where so many bytes are
// free of a limit; 0 if there is none.
func (f *draftFlags) need(c engine.Config, b *mem.Budget, threads int) (uint64, error) {
	if f.model == "" || f.joins {
		return 0, nil
	}
	h, err := f.head()
	if err != nil {
		return 0, err
	}
	defer h.file.Close()
	p, err := engine.NewPlan(h.file, b, threads, f.settings(h, c, min(cmp.Or(c.Ctx, draftCtx), draftCtx)))
	if err != nil {
		return 0, f.unfit(err)
	}
	return p.Need.Total(), nil
}

// unfit makes the refusal of a draft model of one.
func (f *draftFlags) unfit(err error) error {
	if fit := (*engine.FitError)(nil); errors.As(err, &fit) {
		fit.Advice = []string{"no draft model (without --model-draft)", "a smaller one"}
		err = fit
	}
	if strings.HasPrefix(err.Error(), f.model+": ") {
		return err
	}
	return fmt.Errorf("the draft model %s: %w", f.model, err)
}

// beside adds to the refusal of a model, for whose draft model so many bytes are kept free, that it might fit without.
func (f *draftFlags) beside(err error, path string, bytes uint64) error {
	fit := (*engine.FitError)(nil)
	if bytes == 0 || !errors.As(err, &fit) || fit.Need.Total() > fit.Free+bytes {
		return err
	}
	fit.Advice = append(fit.Advice, fmt.Sprintf("no draft model, which needs %s (without --model-draft)", mem.FormatBytes(bytes)))
	return fmt.Errorf("%s: %w", path, fit)
}

// opened opens a model with a function, and the draft model for it, if there is one, for which memory is kept free meanwhile. The draft model's engine,
// nil if there is none, is to be closed before the other. note is told what is to be known of it, and failed why it does not draft for a while.
func (f *draftFlags) opened(open func() (*engine.Engine, error), path string, tok *tokenizer.Tokenizer, c engine.Config, note func(string), failed func(error)) (eng, drafts *engine.Engine, err error) {
	budget := c.Device.Budget()
	need, err := f.need(c, budget, c.Device.Threads())
	if err != nil {
		return nil, nil, err
	}
	aside, err := budget.Reserve("a draft model", need)
	if err != nil {
		return nil, nil, f.unfit(err)
	}
	eng, err = open()
	aside.Release()
	if err != nil {
		return nil, nil, f.beside(err, path, need)
	}
	if drafts, err = f.attach(eng, tok, c, note, failed); err != nil {
		eng.Close()
		return nil, nil, err
	}
	return eng, drafts, nil
}

// attach has the draft model, if there is one, draft for an engine that was opened with c.
func (f *draftFlags) attach(eng *engine.Engine, tok *tokenizer.Tokenizer, c engine.Config, note func(string), failed func(error)) (*engine.Engine, error) {
	if f.model == "" || f.joins {
		return nil, nil
	}
	h, err := f.head()
	if err != nil {
		return nil, err
	}
	c.Batch = eng.Batch()
	settings := f.settings(h, c, eng.Ctx())
	for { // as long a context as there is memory for
		_, err := engine.NewPlan(h.file, c.Device.Budget(), c.Device.Threads(), settings)
		if err == nil || settings.Ctx <= draftCtx {
			break
		}
		settings.Ctx = max(settings.Ctx/2, draftCtx)
	}
	d, err := engine.New(h.file, settings)
	if err != nil {
		return nil, f.unfit(err)
	}
	if differ := sameVocabulary(h.tok, tok); differ != nil {
		note(fmt.Sprintf("the draft model %s drafts by text: %v", f.model, differ))
		err = eng.DraftByText(d, tokenizer.Spelling{Tokenizer: tok}, tokenizer.Spelling{Tokenizer: h.tok}, failed)
	} else {
		err = eng.DraftWith(d, failed)
	}
	if err != nil {
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
		return fmt.Errorf("its vocabulary has %d tokens and the model's %d", n, m)
	}
	return sameTokens(drafts, tok)
}

// sameTokens returns an error unless ids that both vocabularies have mean the same.
func sameTokens(drafts, tok *tokenizer.Tokenizer) error {
	for id := range int32(min(drafts.Len(), tok.Len())) {
		if a, b := drafts.Token(id), tok.Token(id); a != b {
			return fmt.Errorf("in its vocabulary token %d is %q, in the model's %q", id, a, b)
		}
	}
	return nil
}

// A draftValue is the name of a model that drafts.
type draftValue struct {
	f   *draftFlags
	hub *hubFlags
}

func (v *draftValue) Set(s string) error {
	v.f.model = s
	return nil
}

func (v *draftValue) String() string {
	if v.f == nil {
		return ""
	}
	return v.f.model
}

func (v *draftValue) Type() string { return "FILE" }

// locate replaces the name of the model by the path of its file.
func (v *draftValue) locate(cmd *cobra.Command) error {
	name, err := v.f.named()
	if err != nil {
		return err
	}
	at, err := v.hub.locate(cmd, name, v.f.repo != "")
	v.f.model = at.path
	return err
}

// named returns the name of the model that drafts; empty if there is none.
func (f *draftFlags) named() (string, error) {
	switch {
	case f.repo == "":
		return f.model, nil
	case f.model != "":
		return "", usagef("--model-draft %s and --hf-repo-draft %s both name a model; give one", f.model, f.repo)
	}
	return onHuggingFace(f.repo), nil
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

// A worthValue is what drafts are to be measured: chances, each with that of a second guess after a plus, and sources of the texts' own.
type worthValue struct {
	right *[]bench.Chances
	own   *[]draft.Set
}

func (v *worthValue) Set(s string) error {
	*v.right, *v.own = nil, nil
	for word := range strings.SplitSeq(strings.TrimPrefix(s, "p="), ",") {
		if set, err := draft.ParseSet(strings.ReplaceAll(word, "+", ",")); err == nil {
			*v.own = append(*v.own, set)
			continue
		}
		first, second, two := strings.Cut(word, "+")
		var c bench.Chances
		var err, err2 error
		if c.Right, err = strconv.ParseFloat(first, 64); two {
			c.Rival, err2 = strconv.ParseFloat(second, 64)
		}
		if err != nil || err2 != nil || !(c.Right >= 0 && c.Right <= 1 && c.Rival >= 0 && c.Rival <= 1) {
			return errors.New("want chances from 0 to 1 with commas between them, such as 0.5,0.7,0.9, or 0.5+0.4 with second guesses; or sources of drafts such as auto, off, ngram+recent")
		}
		*v.right = append(*v.right, c)
	}
	return nil
}

func (v *worthValue) String() string {
	var words []string
	if v.right == nil {
		return ""
	}
	for _, c := range *v.right {
		word := strconv.FormatFloat(c.Right, 'g', -1, 64)
		if c.Rival > 0 {
			word += "+" + strconv.FormatFloat(c.Rival, 'g', -1, 64)
		}
		words = append(words, word)
	}
	for _, set := range *v.own {
		words = append(words, strings.ReplaceAll(set.String(), ",", "+"))
	}
	return strings.Join(words, ",")
}

func (v *worthValue) Type() string { return "CHANCES" }
