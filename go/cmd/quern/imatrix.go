package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/tokenizer"
)

// imatrixFlags are the flags of "quern imatrix".
type imatrixFlags struct {
	model                  modelFlags
	file, out              string
	in                     []string
	chunks, from           int
	output, show, replaces bool
}

func newImatrixCommand() *cobra.Command {
	var f imatrixFlags
	cmd := &cobra.Command{
		Use:   "imatrix -m FILE -f TEXT -o OUT",
		Short: "Measure how much each column of a model's matrices counts, to quantize it well",
		Long: `Write an importance matrix for "quern quantize --imatrix": the mean square of what
each column of each matrix is multiplied by while the model reads a text, experts
apart. The file is llama-imatrix's, and its files are read. The text should be like
what the model is for; some hundred chunks are enough.

With --in-file, what other files have is added; without -m that is all, to join
files of several texts. With --show-statistics, what they have is printed.`,
		Example: `  quern imatrix -m model-f16.gguf -f calibration.txt -o model.imatrix
  quern imatrix --in-file a.imatrix --in-file b.imatrix -o both.imatrix
  quern imatrix --in-file model.imatrix --show-statistics`,
		Args: cobra.NoArgs,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	fs := cmd.Flags()
	f.model.define(fs)
	f.model.defineContext(fs, 512, 2, "tokens of a chunk")
	fs.StringVarP(&f.file, "file", "f", "", "`TEXT` file to read")
	fs.StringVarP(&f.out, "output-file", "o", "imatrix.gguf", "`FILE` to write")
	fs.StringVar(&f.out, "output", "imatrix.gguf", "the same")
	fs.StringArrayVar(&f.in, "in-file", nil, "a `FILE` whose sums are added")
	intVar(fs, &f.chunks, "chunks", "", 0, -1, 1<<30, "read at most this many chunks; 0 or -1 is all")
	intVar(fs, &f.from, "from-chunk", "", 0, 0, 1<<30, "leave out so many chunks at the beginning")
	fs.BoolVar(&f.output, "process-output", false, "the output matrix as well")
	fs.BoolVar(&f.show, "show-statistics", false, "print how columns count, and write nothing")
	fs.BoolVar(&f.replaces, "force", false, "replace the file if it is there")
	return cmd
}

func (f *imatrixFlags) run(cmd *cobra.Command) error {
	m := &quant.Matrix{Entries: map[string]*quant.Entry{}, ChunkSize: f.model.ctx}
	for i, path := range f.in {
		in, err := quant.ReadMatrix(path)
		if err != nil {
			return err
		}
		if i == 0 && (f.show || f.file == "") {
			m = in
		} else if err := m.Merge(in); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	switch {
	case f.show && len(f.in) == 0:
		return usagef("no importance matrix to show; give one with --in-file")
	case f.show:
		return printStatistics(cmd.OutOrStdout(), m)
	case f.file == "" && len(f.in) < 2:
		return usagef("no text; give one with -f FILE, or two files to join with --in-file")
	}
	// The text is read within, which may take hours: a file that cannot be written is refused before.
	n, err := newfile.Write(f.out, f.replaces, 0o644, 0, func(w io.Writer) (int64, error) {
		if f.file != "" {
			if err := f.collect(cmd, m); err != nil {
				return 0, err
			}
		}
		return m.WriteTo(w)
	})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d tensors, %d chunks, %d bytes\n", visible(f.out), len(m.Entries), m.Chunks, n)
	return err
}

// collect has the model read the text.
func (f *imatrixFlags) collect(cmd *cobra.Command, m *quant.Matrix) error {
	if err := f.model.required(); err != nil {
		return err
	}
	f.model.warn(notes(cmd.ErrOrStderr()))
	text, err := readFile(f.file)
	if err != nil {
		return err
	}
	head, err := readHead(f.model.path, true, f.model.overrides)
	if err != nil {
		return err
	}
	defer head.file.Close()
	tok := head.tok
	ids := tok.Encode(text, tokenizer.Options{})
	first := min(f.from, len(ids)/f.model.ctx)
	chunks := len(ids)/f.model.ctx - first
	if chunks == 0 {
		return fmt.Errorf("the text has %d tokens, and no chunk of %d after the first %d; give a longer text or a smaller context", len(ids), f.model.ctx, f.from)
	}
	if f.chunks > 0 {
		chunks = min(chunks, f.chunks)
	}
	eng, err := f.model.open(head.file, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer eng.Close()
	eng.Tap(true)
	defer eng.Tap(false)
	chunk := make([]int32, f.model.ctx)
	for n := range chunks {
		copy(chunk, ids[(first+n)*len(chunk):])
		if bos, ok := tok.BOS(); ok && tok.AddBOS() {
			chunk[0] = bos
		}
		if err := f.read(cmd.Context(), eng.Engine, chunk); err != nil {
			return fmt.Errorf("chunk %d of %d: %w", n+1, chunks, err)
		}
		if w := cmd.ErrOrStderr(); isTerminal(w) {
			fmt.Fprintf(w, "\r%d of %d chunks", n+1, chunks)
		}
	}
	if w := cmd.ErrOrStderr(); isTerminal(w) {
		fmt.Fprintln(w)
	}
	eng.Tapped(func(t model.Tapped) {
		if out := t.Tensor == "output.weight" || t.Tensor == "token_embd.weight"; !out || f.output {
			err = errors.Join(err, m.Add(t.Tensor, t.Sums, t.Counts))
		}
	})
	if err != nil {
		return err
	}
	m.Chunks += chunks
	m.Datasets = append(m.Datasets, filepath.Base(f.file))
	note := notes(cmd.ErrOrStderr())
	none, some := m.Unused()
	if len(none) > 0 {
		note(fmt.Sprintf("%d tensors were multiplied by nothing and are left out, such as %s", len(none), none[0]))
	}
	if len(some) > 0 {
		note(fmt.Sprintf("no token of the text chose some experts of %d tensors, such as %s; a longer text may", len(some), some[0]))
	}
	return nil
}

// read evaluates a chunk as a sequence of its own.
func (f *imatrixFlags) read(ctx context.Context, eng *engine.Engine, chunk []int32) error {
	seq := eng.NewSequence()
	defer seq.Close()
	if !f.output {
		return eng.Eval(ctx, seq, chunk, 0, nil)
	}
	return eng.Eval(ctx, seq, chunk, 0, func(int, []float32) error { return nil })
}

func printStatistics(w io.Writer, m *quant.Matrix) error {
	list, err := m.Statistics()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "sum\tmean\tdeviation\tmax\tactive\tentropy\tcolumns\t tensor")
	for _, s := range list {
		fmt.Fprintf(t, "%.4g\t%.4g\t%.4g\t%.4g\t%.1f%%\t%.1f%%\t%d\t %s\n", s.Sum, s.Mean, s.SD, s.Max, 100*s.Active, 100*s.Entropy, s.Columns, visible(s.Tensor))
	}
	return t.Flush()
}
