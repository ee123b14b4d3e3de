package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/tokenizer"
)

func newPerplexityCommand() *cobra.Command {
	var (
		model  = modelFlags{}
		file   string
		chunks int
	)
	cmd := &cobra.Command{
		Use:   "perplexity -m FILE -f TEXT",
		Short: "Measure how well a model predicts a text",
		Long: `Measure how well a model predicts a text, by llama-perplexity's method, so that
the numbers can be compared: the text is cut into chunks of -c tokens, and the
second half of each is scored. The estimate so far is printed after each chunk.`,
		Example: `  quern perplexity -m model.gguf -f wiki.test.raw`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := model.required(); err != nil {
				return err
			}
			if file == "" {
				return usagef("no text; give one with -f FILE")
			}
			model.warn(notes(cmd.ErrOrStderr()))
			text, err := readFile(file)
			if err != nil {
				return err
			}
			head, err := readHead(model.path, true)
			if err != nil {
				return err
			}
			defer head.file.Close()
			tok := head.tok
			c := quant.Chunks{Ctx: model.ctx, Max: max(chunks, 0), AddBOS: tok.AddBOS()}
			c.BOS, _ = tok.BOS()
			ids := tok.Encode(text, tokenizer.Options{})
			if _, err := c.Count(len(ids)); err != nil {
				return err // before the model is loaded, which may take long
			}
			eng, err := model.open(head.file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer eng.Close()

			out := cmd.OutOrStdout()
			est, err := quant.Perplexity(cmd.Context(), evaluator(eng.Engine), ids, c, func(e quant.Estimate) error {
				_, err := fmt.Fprintf(out, "[%d]%.4f,", e.Chunks, e.PPL)
				return err
			})
			if est.Chunks > 0 {
				fmt.Fprintln(out)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "PPL = %.4f +/- %.5f\n", est.PPL, est.StdErr)
			return err
		},
	}
	fs := cmd.Flags()
	model.define(fs)
	model.defineContext(fs, 512, quant.MinCtx, "tokens of a chunk")
	fs.StringVarP(&file, "file", "f", "", "`TEXT` file to predict")
	intVar(fs, &chunks, "chunks", "", 0, -1, 1<<30, "evaluate at most this many chunks; 0 or -1 is all")
	return cmd
}

// evaluator runs each chunk as a sequence of its own.
func evaluator(eng *engine.Engine) quant.Eval {
	return func(ctx context.Context, ids []int32, from int, visit func(int, []float32) error) error {
		seq := eng.NewSequence()
		defer seq.Close()
		return eng.Eval(ctx, seq, ids, from, visit)
	}
}
