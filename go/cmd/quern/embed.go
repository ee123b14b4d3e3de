package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/tokenizer"
)

// poolings are the names of the ways to make a vector of a text.
var poolings = map[string]nn.Pooling{
	"none": nn.PoolNone, "mean": nn.PoolMean, "cls": nn.PoolCLS, "last": nn.PoolLast, "rank": nn.PoolRank,
}

func newEmbedCommand() *cobra.Command {
	var (
		model                      modelFlags
		adapters                   adapterFlags
		text                       textFlag
		pooling, format, separator string
		prompt                     string
		normalize                  int
	)
	cmd := &cobra.Command{
		Use:   "embed -m FILE [TEXT...]",
		Short: "Compute embeddings of texts",
		Long: `Compute embeddings of texts, with embedding models and with any other. Each TEXT is
one text; with -p, a file or standard input, each line is. Vectors are written in
that order.

The model file sets the pooling of token vectors: mean, first token (cls) or last
token. If it does not, the default is mean for bidirectional models and last for
others. With none, every token has a vector. With rank, the output is the raw scores
of the file's classifier. Sparse vectors (SPLADE) are written as token:number for each
number that is not 0, and keep their length unless --embd-normalize is given.`,
		Example: `  quern embed -m model.gguf "a cat" "a kitten" --embd-output-format json+
  quern embed -m model.gguf -f lines.txt > vectors.txt`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := model.required(); err != nil {
				return err
			}
			model.warn(notes(cmd.ErrOrStderr()))
			texts := args
			switch {
			case len(args) > 0 && (text.typed() || text.flags.Changed("file")):
				return usagef("%.40q and a flag, -p or -f, both give texts; give one of them", args[0])
			case separator == "":
				return usagef("--embd-separator is empty; give what stands between texts")
			case len(args) == 0:
				all, err := text.read(cmd.InOrStdin())
				if err != nil {
					return err
				}
				texts = strings.Split(strings.TrimSuffix(all, separator), separator)
			}
			head, err := model.readAdapted(&adapters)
			if err != nil {
				return err
			}
			defer head.Close()
			prompts := &head.Config.Prompts
			before, ok := prompts.Text(cmp.Or(prompt, prompts.Default))
			if prompt != "" && !ok {
				return usagef("--prompt-name %.40q: want one of the model's: %.200q", prompt, prompts.Names)
			}
			read := make([]engine.Text, len(texts))
			for i, t := range texts {
				t = before + t
				read[i].IDs = head.Tokenizer.Begin(head.Tokenizer.Encode(t, tokenizer.Options{ParseSpecial: true}))
			}
			m, err := model.open(head, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer m.Close()
			if line := m.Warning(); line != "" {
				notes(cmd.ErrOrStderr())(line)
			}
			eng := m.Engine
			pool, given := poolings[pooling]
			if !given {
				pool = eng.Pooling()
			}
			if pool.Sparse() && !cmd.Flags().Changed("embd-normalize") {
				normalize = -1
			}
			w := newVectorWriter(cmd.OutOrStdout(), format, pool.Sparse())
			err = m.Embed(cmd.Context(), read, pool, func(_ int, vectors [][]float32) error {
				for _, v := range vectors {
					if pool != nn.PoolRank {
						engine.Normalize(v, normalize)
					}
					if err := w.write(v); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", model.path, err)
			}
			return w.close()
		},
	}
	fs := cmd.Flags()
	text.define(fs, "with a text in each line")
	fs.Lookup("prompt").Usage = "`TEXTS`, one per line"
	model.define(fs)
	model.defineContext(fs, -1, 0, "tokens of a text at most; 0 is what the model was trained for (default: that, up to 4096)")
	adapters.define(fs)
	choiceVar(fs, &pooling, "pooling", "", slices.Sorted(maps.Keys(poolings)), "pooling of token vectors")
	fs.StringVar(&prompt, "prompt-name", "", "name of the text of the model, such as query, that is put before each (default: the file's, if it names one)")
	intVar(fs, &normalize, "embd-normalize", "", engine.Euclidean, -1, 1<<15, "norm that scales vectors to length 1: 2 is Euclidean, 1 the sum, -1 none; 0 scales the largest number to 32760")
	choiceVar(fs, &format, "embd-output-format", vectorFormats[0], vectorFormats, "lines of numbers, JSON in OpenAI's format, or the same with cosine similarities")
	fs.StringVar(&separator, "embd-separator", "\n", "separator of the `TEXT`s in -p, -f and standard input")
	llamaFlags(fs, llamaflags.Common, llamaflags.Tools)
	return cmd
}
