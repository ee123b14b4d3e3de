package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/bench"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/launch"
)

// draftFlags say what is guessed of texts, to verify several tokens in a pass.
type draftFlags struct {
	draft.Options
	model string // that drafts; empty: none
	repo  string // of that model on Hugging Face, as llama.cpp names it
}

func (f *draftFlags) define(fs *pflag.FlagSet, hub *hubFlags) { f.defineBeside(fs, fs, hub) }

// defineBeside is define where those that name the draft model have a set of their own.
func (f *draftFlags) defineBeside(fs, which *pflag.FlagSet, hub *hubFlags) {
	f.Options = draft.Defaults
	fs.Var((*sourcesValue)(&f.Sources), "speculate", "`SOURCES` of drafts, to verify several tokens in one pass where that is faster: auto, off, or with commas ngram (the text itself), recent (recent texts), mtp (a layer of the model that predicts further tokens), head (layers trained for it, in a file of their own), model (a draft model)")
	which.Var(&draftValue{f, hub}, "model-draft", "GGUF `FILE` of a smaller model, or of a head such as EAGLE-3, which drafts for the first model; or its name, as -m has it")
	which.StringVar(&f.repo, "hf-repo-draft", "", "`ORG/REPO[:QUANT]` on Hugging Face, downloaded unless it is here; as --model-draft hf.co/ORG/REPO[:QUANT] --yes")
	which.Lookup("hf-repo-draft").Hidden = true
	intVar(fs, &f.Max, "draft-max", "", f.Max, 0, 1<<16, "draft tokens at a time, at most; more than 31 are 31")
	intVar(fs, &f.Min, "draft-min", "", f.Min, 0, 1<<16, "draft tokens at a time, at least; fewer are not used")
	floatVar(fs, &f.MinChance, "draft-p-min", f.MinChance, 0, 1, "least chance of a draft token")
	for _, name := range []string{"draft-max", "draft-min", "draft-p-min"} {
		fs.Lookup(name).Hidden = true
	}
}

// settings returns the flags as settings of a model.
func (f *draftFlags) settings() launch.Draft { return launch.Draft{Sources: f.Sources, Path: f.model} }

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
	at, err := v.hub.locateAlone(cmd, name, v.f.repo != "")
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
