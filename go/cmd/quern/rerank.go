package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/rerank"
	"github.com/quern-llm/quern/go/tokenizer"
)

// rerankFlags are the flags of "quern rerank".
type rerankFlags struct {
	model   modelFlags
	lora    adapterFlags
	text    textFlag
	pooling string
	top     int
	json    bool
}

func newRerankCommand() *cobra.Command {
	var f rerankFlags
	cmd := &cobra.Command{
		Use:   "rerank -m FILE QUERY [DOCUMENT...]",
		Short: "Order documents by what they have to say on a query",
		Long: `Order documents by what they have to say on a query, the best first. Each DOCUMENT is
one; with -p, a file or standard input, each line is.

A model with a classifier (a reranker) scores each document together with the query. An
embedding model, and with --pooling any model, scores it by the cosine of its vector and
the query's. With a vector for each token, as ColBERT has, that is the sum over the
query's tokens of the greatest cosine; of sparse vectors it is their product. A line has
the score, the number of the document, counted from 0, and its text, with tabs between
them.`,
		Example: `  quern rerank -m reranker.gguf "What is red?" "The sky." "A tomato."
  quern rerank -m reranker.gguf "What is red?" -f lines.txt --top-n 3 --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[1:]) },
	}
	fs := cmd.Flags()
	f.text.define(fs, "with a document in each line")
	fs.Lookup("prompt").Usage = "`DOCUMENTS`, one per line"
	f.model.define(fs)
	f.model.defineContext(fs, -1, 0, "tokens of a query and a document at most; 0 is what the model was trained for (default: that, up to 4096)")
	f.lora.define(fs)
	choiceVar(fs, &f.pooling, "pooling", "", slices.Sorted(maps.Keys(poolings)), "pooling of token vectors; rank is the file's classifier (default: rank if there is one)")
	intVar(fs, &f.top, "top-n", "", 0, 0, 1<<30, "how many of the best to print; 0 is all")
	fs.BoolVar(&f.json, "json", false, "print JSON, as POST /v1/rerank does")
	return cmd
}

func (f *rerankFlags) run(cmd *cobra.Command, query string, documents []string) error {
	if err := f.model.required(); err != nil {
		return err
	}
	f.model.warn(notes(cmd.ErrOrStderr()))
	switch {
	case len(documents) > 0 && (f.text.typed() || f.text.flags.Changed("file")):
		return usagef("%.40q and a flag, -p or -f, both give documents; give one of them", documents[0])
	case len(documents) == 0:
		all, err := f.text.read(cmd.InOrStdin())
		if err != nil {
			return err
		}
		documents = strings.Split(strings.TrimSuffix(all, "\n"), "\n")
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
	scores, err := f.scores(cmd, head, m, query, documents)
	if err != nil {
		return fmt.Errorf("%s: %w", f.model.path, err)
	}
	return printRanked(cmd.OutOrStdout(), rerank.Order(scores, f.top), documents, f.json)
}

// scores returns the scores of the documents.
func (f *rerankFlags) scores(cmd *cobra.Command, head *launch.Head, m *launch.Model, query string, documents []string) ([]float64, error) {
	pooling, given := poolings[f.pooling]
	_, err := m.Engine.Embedding(1, nn.PoolRank)
	switch {
	case !given && err == nil:
		pooling = nn.PoolRank
	case !given && !head.Config.BothWays:
		return nil, fmt.Errorf("%w; compare vectors of texts with --pooling last or mean, or use a reranker", err)
	case !given:
		pooling = m.Engine.Pooling()
	}
	pair := func(text string) (engine.Text, error) {
		ids := head.Tokenizer.Begin(head.Tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true}))
		return engine.Text{IDs: ids}, nil
	}
	texts := append(slices.Clone(documents), query)
	if pooling == nn.PoolRank {
		texts = documents
		if pair, err = head.Pairs().Pairing(query); err != nil {
			return nil, err
		}
	}
	read := make([]engine.Text, len(texts))
	for i, t := range texts {
		if read[i], err = pair(t); err != nil {
			return nil, err
		}
	}
	vectors := make([][][]float32, len(texts))
	if err := m.Embed(cmd.Context(), read, pooling, func(i int, v [][]float32) error {
		vectors[i] = v
		return nil
	}); err != nil {
		return nil, err
	}
	if pooling != nn.PoolRank {
		return rerank.Compare(pooling, vectors[len(documents)], vectors[:len(documents)]), nil
	}
	scores := make([]float64, len(documents))
	for i, v := range vectors {
		scores[i] = float64(v[0][0])
	}
	return scores, nil
}

// printRanked prints documents with their scores.
func printRanked(w io.Writer, ranked []rerank.Ranked, documents []string, asJSON bool) error {
	type text struct {
		Text string `json:"text"`
	}
	type result struct {
		Index    int     `json:"index"`
		Score    float64 `json:"relevance_score"`
		Document text    `json:"document"`
	}
	var list struct {
		Results []result `json:"results"`
	}
	for _, r := range ranked {
		if !asJSON {
			if _, err := fmt.Fprintf(w, "%.6f\t%d\t%s\n", r.Score, r.Index, documents[r.Index]); err != nil {
				return err
			}
		}
		list.Results = append(list.Results, result{r.Index, r.Score, text{documents[r.Index]}})
	}
	if !asJSON {
		return nil
	}
	return printJSON(w, list)
}
