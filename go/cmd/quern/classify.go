package main

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/tokenizer"
)

// classifyFlags are the flags of "quern classify".
type classifyFlags struct {
	model modelFlags
	lora  adapterFlags
	text  textFlag
	pair  string
	json  bool
}

func newClassifyCommand() *cobra.Command {
	var f classifyFlags
	cmd := &cobra.Command{
		Use:   "classify -m FILE [TEXT...]",
		Short: "Say which class texts, or their tokens, are of",
		Long: `Say which class texts are of, with a model that has a classifier. Each TEXT is one; with
-p, a file or standard input, each line is. A line has the likeliest class, its
probability and the text, with tabs between them.

With --text-pair, each text is the first of a pair, and that one the second: a premise and a
hypothesis, for instance.

A model that classifies tokens (one that finds names, for instance) has a line for each
token, and an empty one after each text.`,
		Example: `  quern classify -m sentiment.gguf "I like it." "I do not."
  quern classify -m entailment.gguf "A dog runs." --text-pair "An animal moves."
  quern classify -m names.gguf -f lines.txt --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.text.define(fs, "with a text in each line")
	fs.Lookup("prompt").Usage = "`TEXTS`, one per line"
	f.model.define(fs)
	f.model.defineContext(fs, -1, 0, "tokens of a text at most; 0 is what the model was trained for (default: that, up to 4096)")
	f.lora.define(fs)
	fs.StringVar(&f.pair, "text-pair", "", "second `TEXT` of a pair with each of the texts")
	fs.BoolVar(&f.json, "json", false, "print JSON with all probabilities")
	return cmd
}

func (f *classifyFlags) run(cmd *cobra.Command, texts []string) error {
	if err := f.model.required(); err != nil {
		return err
	}
	f.model.warn(notes(cmd.ErrOrStderr()))
	switch {
	case len(texts) > 0 && (f.text.typed() || f.text.flags.Changed("file")):
		return usagef("%.40q and a flag, -p or -f, both give texts; give one of them", texts[0])
	case len(texts) == 0:
		all, err := f.text.read(cmd.InOrStdin())
		if err != nil {
			return err
		}
		texts = strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	}
	head, err := f.model.readAdapted(&f.lora)
	if err != nil {
		return err
	}
	defer head.Close()
	m, err := f.model.open(head, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer m.Close()
	if line := m.Warning(); line != "" {
		notes(cmd.ErrOrStderr())(line)
	}
	if err := f.classify(cmd, head, m, texts); err != nil {
		return fmt.Errorf("%s: %w", f.model.path, err)
	}
	return nil
}

// A classified is a text, or a token of one, with its class.
type classified struct {
	Index  int          `json:"index"`
	Text   string       `json:"text"`
	Label  string       `json:"label,omitempty"`
	Probs  []float32    `json:"probs,omitempty"`
	Tokens []classified `json:"tokens,omitempty"`
}

// classify prints the classes of texts.
func (f *classifyFlags) classify(cmd *cobra.Command, head *launch.Head, m *launch.Model, texts []string) error {
	c := head.Config.Classifier
	pooling := nn.PoolRank
	if c.Tokens {
		pooling = nn.PoolTokens
	}
	read := make([]engine.Text, len(texts))
	for i, t := range texts {
		if !cmd.Flags().Changed("text-pair") {
			read[i].IDs = head.Tokenizer.Begin(head.Tokenizer.Encode(t, tokenizer.Options{ParseSpecial: true}))
			continue
		}
		pair, err := head.Pairs().Pairing(t)
		if err == nil {
			read[i], err = pair(f.pair)
		}
		if err != nil {
			return err
		}
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	of := func(i int, text string, scores []float32) classified {
		x := classified{Index: i, Text: text, Label: c.Best(scores), Probs: scores}
		if x.Label == "" {
			x.Label = strconv.Itoa(slices.Index(scores, slices.Max(scores)))
		}
		engine.Classes(scores, c)
		if !f.json {
			fmt.Fprintf(w, "%s\t%.6f\t%s\n", x.Label, slices.Max(scores), text)
		}
		return x
	}
	var all struct {
		Results []classified `json:"results"`
	}
	err := m.Embed(cmd.Context(), read, pooling, func(i int, rows [][]float32) error {
		if pooling == nn.PoolRank {
			all.Results = append(all.Results, of(i, texts[i], rows[0]))
			return nil
		}
		whole := classified{Index: i, Text: texts[i]}
		for k, scores := range rows {
			piece := strings.ToValidUTF8(string(head.Tokenizer.Piece(read[i].IDs[k], true)), "\uFFFD")
			whole.Tokens = append(whole.Tokens, of(k, piece, scores))
		}
		if !f.json {
			fmt.Fprintln(w)
		}
		all.Results = append(all.Results, whole)
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil || !f.json {
		return err
	}
	return printJSON(cmd.OutOrStdout(), all)
}
