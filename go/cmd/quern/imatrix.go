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
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
)

// imatrixFlags are the flags of "quern imatrix".
type imatrixFlags struct {
	model                  modelFlags
	file, out              string
	in                     []string
	chunks, from, every    int
	output, show, replaces bool
}

func newImatrixCommand() *cobra.Command {
	var f imatrixFlags
	cmd := &cobra.Command{
		Use:   "imatrix -m FILE -f TEXT -o OUT",
		Short: "Compute an importance matrix for quantization",
		Long: `Write an importance matrix for "quern quantize --imatrix": the mean square of the
inputs of each column of each matrix on a text, separately for each expert. The
format is llama-imatrix's. The text should resemble the model's use; some hundred
chunks are enough. On Ctrl-C the current chunk is finished, and the file has all
chunks so far.

With --in-file, the data of other files is added; without -m, files are merged. With
--show-statistics, statistics are printed instead.`,
		Example: `  quern imatrix -m model-f16.gguf -f calibration.txt -o model.imatrix
  quern imatrix --in-file a.imatrix --in-file b.imatrix -o both.imatrix
  quern imatrix --in-file model.imatrix --show-statistics`,
		Args: flagsAlone,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	fs := cmd.Flags()
	f.model.define(fs)
	f.model.defineContext(fs, 512, 2, "tokens of a chunk")
	fs.StringVarP(&f.file, "file", "f", "", "`TEXT` file to read")
	fs.StringVarP(&f.out, "output-file", "o", "imatrix.gguf", "`FILE` to write")
	fs.StringVar(&f.out, "output", "imatrix.gguf", "the same")
	fs.StringArrayVar(&f.in, "in-file", nil, "a `FILE` whose data is added")
	intVar(fs, &f.chunks, "chunks", "", 0, -1, 1<<30, "maximum chunks to read; 0 or -1 is all")
	intVar(fs, &f.from, "from-chunk", "", 0, 0, 1<<30, "chunks to skip at the beginning")
	intVar(fs, &f.every, "output-frequency", "", 10, 0, 1<<30, "write the file after every N chunks; 0 is only at the end")
	alias(fs, "output-frequency", "ofreq")
	fs.BoolVar(&f.output, "process-output", false, "include the output matrix")
	fs.BoolVar(&f.show, "show-statistics", false, "print statistics of the columns, without writing")
	fs.BoolVar(&f.replaces, "force", false, "replace an existing file")
	llamaFlags(fs, llamaflags.Common, llamaflags.Tools)
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
	save := &matrixFile{path: f.out, replace: f.replaces}
	if f.file == "" {
		if err := save.write(m); err != nil {
			return err
		}
		return save.say(cmd.OutOrStdout(), m)
	}
	// To read the text may take hours: a file that cannot be written is refused before.
	if err := newfile.Check(f.out, f.replaces); err != nil {
		return save.explain(err)
	}
	return f.collect(cmd, m, save)
}

// A matrixFile is written whole each time, and replaces what it was before.
type matrixFile struct {
	path    string
	replace bool
	bytes   int64
}

func (s *matrixFile) write(m *quant.Matrix) (err error) {
	if s.bytes, err = newfile.Write(s.path, s.replace, 0o644, 0, m.WriteTo); err != nil {
		return s.explain(err)
	}
	s.replace = true // by more of the same
	return nil
}

func (s *matrixFile) explain(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", err)
	}
	return err
}

func (s *matrixFile) say(w io.Writer, m *quant.Matrix) error {
	_, err := fmt.Fprintf(w, "%s: %d tensors, %d chunks, %d bytes\n", visible(s.path), len(m.Entries), m.Chunks, s.bytes)
	return err
}

// collect has the model read the text, and writes what it was multiplied by, added to base.
func (f *imatrixFlags) collect(cmd *cobra.Command, base *quant.Matrix, save *matrixFile) error {
	if err := f.model.required(); err != nil {
		return err
	}
	f.model.warn(notes(cmd.ErrOrStderr()))
	text, err := readFile(f.file)
	if err != nil {
		return err
	}
	head, err := f.model.readHead()
	if err != nil {
		return err
	}
	defer head.Close()
	chunks, err := chunked(head.Tokenizer, text, f.model.ctx, f.from, f.chunks, f.output)
	if err != nil {
		return err
	}
	opened, err := f.model.open(head, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer opened.Close()
	eng := opened.Engine
	eng.Tap(true)
	defer eng.Tap(false)
	read := 0
	err = f.read(cmd, chunks, eng, func(n int) error {
		if read = n; f.every == 0 || n%f.every != 0 || n == chunks.chunks {
			return nil
		}
		m, err := f.sums(base, eng, n)
		if err != nil {
			return err
		}
		m.Unused()
		return save.write(m)
	})
	if err != nil && (read == 0 || !errors.Is(err, context.Canceled)) {
		return err
	}
	m, sumsErr := f.sums(base, eng, read)
	if sumsErr != nil {
		return sumsErr
	}
	note := notes(cmd.ErrOrStderr())
	none, some := m.Unused()
	if len(none) > 0 {
		note(fmt.Sprintf("%d tensors were multiplied by nothing and are left out, such as %s", len(none), none[0]))
	}
	if len(some) > 0 {
		note(fmt.Sprintf("no token of the text chose some experts of %d tensors, such as %s; a longer text may", len(some), some[0]))
	}
	if err := save.write(m); err != nil {
		return err
	}
	if err != nil {
		note(fmt.Sprintf("interrupted after %d of %d chunks; --from-chunk %d and --in-file %s go on from there", read, chunks.chunks, chunks.first+read, visible(f.out)))
	}
	return errors.Join(save.say(cmd.OutOrStdout(), m), err)
}

// read has the model read the chunks. An interrupt ends it after the chunk that is being read, so that what there is are the
// sums of whole chunks.
func (f *imatrixFlags) read(cmd *cobra.Command, chunks *chunkedText, eng *engine.Engine, done func(n int) error) error {
	ctx, w := cmd.Context(), cmd.ErrOrStderr()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := chunks.read(context.WithoutCancel(ctx), eng, func(n int) error {
		if isTerminal(w) {
			fmt.Fprintf(w, "\r%d of %d chunks", n, chunks.chunks)
		}
		err := done(n)
		if err == nil && n < chunks.chunks {
			err = ctx.Err()
		}
		return err
	})
	if isTerminal(w) {
		fmt.Fprintln(w)
	}
	return err
}

// sums returns what was measured in so many chunks, added to base.
func (f *imatrixFlags) sums(base *quant.Matrix, eng *engine.Engine, chunks int) (*quant.Matrix, error) {
	m := base.Clone()
	var err error
	eng.Tapped(func(t model.Tapped) {
		if out := t.Tensor == "output.weight" || t.Tensor == "token_embd.weight"; !out || f.output {
			err = errors.Join(err, m.Add(t.Tensor, t.Sums, t.Counts))
		}
	})
	m.Chunks += chunks
	m.Datasets = append(m.Datasets, filepath.Base(f.file))
	return m, err
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
